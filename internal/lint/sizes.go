package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// Sizes bounds how large source may grow before it has to be taken apart.
type Sizes struct {
	// FunctionLines is the largest body of a function, in lines.
	FunctionLines int
	// FileLines is the largest file, in lines.
	FileLines int
}

// Limits are the bounds of this repository: a function fits a screen, a file
// has one subject. Tests may be longer, for tables make them so.
var Limits = Sizes{FunctionLines: 70, FileLines: 800}

// Oversize returns what exceeds the limits in one source file, as messages
// that name the place. Generated files are exempt.
func Oversize(name string, source []byte, limits Sizes) ([]Excess, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", name, err)
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	var found []Excess
	if n := fset.File(file.Pos()).LineCount(); n > limits.FileLines {
		found = append(found, Excess{Place: name, Lines: n, Limit: limits.FileLines})
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
		if n > limits.FunctionLines {
			found = append(found, Excess{Place: name + ":" + funcName(fn), Lines: n, Limit: limits.FunctionLines})
		}
	}
	return found, nil
}

// Excess is one function or file over its limit.
type Excess struct {
	// Place is "file" or "file:Function"; stable while lines move.
	Place        string
	Lines, Limit int
}

func (e Excess) String() string {
	return fmt.Sprintf("%s has %d lines; the limit is %d", e.Place, e.Lines, e.Limit)
}

func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	return strings.TrimPrefix(receiver(fn.Recv.List[0].Type), "*") + "." + fn.Name.Name
}

func receiver(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}
