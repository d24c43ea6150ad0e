package lint

import (
	"fmt"
	"slices"
	"strings"
)

// Module is the path that all packages of this repository begin with.
const Module = "github.com/millrace/millrace"

// A Package is one package of the repository with what it imports.
type Package struct {
	// Path is relative to the module: "broker/internal/api". The module's
	// root is the empty string.
	Path string
	// Imports are full import paths of the package's own files.
	Imports []string
	// TestImports are those of its test files, external tests included.
	TestImports []string
}

// A Rule says what the packages that match Of may import of this module.
type Rule struct {
	// Of is a pattern of package paths; see [match]. The first rule that
	// matches a package decides.
	Of string
	// May lists patterns of packages of this module. Libraries and the
	// standard library are always allowed, except those in [Banned].
	May []string
	// Why is shown when the rule is broken.
	Why string
}

// A Ban keeps a library to the packages that exist to hide it.
type Ban struct {
	// Library is an import path; it also covers the paths below it.
	Library string
	// Except lists the patterns of packages that may use it.
	Except []string
	// Why is shown when the ban is broken.
	Why string
}

// Violation is one import that a rule does not allow.
type Violation struct {
	Package, Import, Why string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s must not import %s: %s", v.Package, v.Import, v.Why)
}

// Check returns every import of the packages that the rules or the bans do
// not allow, in order. A package of the module that no rule matches is a
// violation of its own: a new package needs its place in the table.
func Check(packages []Package, rules []Rule, bans []Ban) []Violation {
	var found []Violation
	for _, p := range packages {
		rule, ok := ruleOf(p.Path, rules)
		if !ok {
			found = append(found, Violation{p.Path, "anything", "it has no row in the import table; add one that says what it may know"})
			continue
		}
		for _, imp := range p.Imports {
			if why, bad := forbidden(p.Path, imp, rule.May, rule.Why, bans); bad {
				found = append(found, Violation{p.Path, imp, why})
			}
		}
		// A test may bring up what its package runs against in real life: a
		// broker. It is held to the package's own row in all else.
		may := append(slices.Clone(rule.May), testsMay...)
		for _, imp := range p.TestImports {
			if why, bad := forbidden(p.Path, imp, may, rule.Why, nil); bad {
				found = append(found, Violation{p.Path + " (test)", imp, why})
			}
		}
	}
	return found
}

func ruleOf(path string, rules []Rule) (Rule, bool) {
	for _, r := range rules {
		if match(r.Of, path) {
			return r, true
		}
	}
	return Rule{}, false
}

func forbidden(from, imp string, may []string, why string, bans []Ban) (string, bool) {
	if rel, ours := strings.CutPrefix(imp, Module+"/"); ours {
		if rel == from || slices.ContainsFunc(may, func(p string) bool { return match(p, rel) }) {
			return "", false
		}
		return why, true
	}
	for _, b := range bans {
		if imp != b.Library && !strings.HasPrefix(imp, b.Library+"/") {
			continue
		}
		if !slices.ContainsFunc(b.Except, func(p string) bool { return match(p, from) }) {
			return b.Why, true
		}
	}
	return "", false
}

// match reports whether a path fits a pattern: the path itself, or, for a
// pattern that ends in "/...", the path before it and all paths below.
func match(pattern, path string) bool {
	if root, deep := strings.CutSuffix(pattern, "/..."); deep {
		return path == root || strings.HasPrefix(path, root+"/")
	}
	return pattern == path
}
