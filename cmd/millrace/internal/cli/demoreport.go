package cli

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the driver that reads the demo's results
)

// demoResult is what the demo prints.
type demoResult struct {
	Pages    []pageRow `json:"top_pages"`
	Visits   int64     `json:"visits"`
	Database string    `json:"database"`
	Lines    string    `json:"json_lines"`
	Folder   string    `json:"folder"`
	Seconds  float64   `json:"seconds"`
}

type pageRow struct {
	Path  string `json:"path"`
	Views int64  `json:"views"`
	Bytes int64  `json:"bytes"`
}

// report reads the results from the SQLite file and prints them.
func (d *demoRun) report(ctx context.Context) error {
	db, err := sql.Open("sqlite", d.database())
	if err != nil {
		return fmt.Errorf("opening the results: %w", err)
	}
	defer db.Close()
	result := demoResult{Database: d.database(), Lines: d.lines(), Folder: d.dir, Seconds: time.Since(d.began).Seconds()}
	var tables int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE name IN ('page_views', 'visits')").Scan(&tables); err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	if tables < 2 {
		return fmt.Errorf("%s holds no page views by people: is it an access log in the combined format?", d.input)
	}
	if result.Pages, err = topPages(ctx, db); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM visits").Scan(&result.Visits); err != nil {
		return fmt.Errorf("counting visits: %w", err)
	}
	if d.json() {
		return d.printJSON(result)
	}
	var cells [][]string
	for _, p := range result.Pages {
		cells = append(cells, []string{p.Path, strconv.FormatInt(p.Views, 10), strconv.FormatInt(p.Bytes, 10)})
	}
	fmt.Fprintln(d.out)
	if err := d.table(nil, []string{"PAGE", "VIEWS", "BYTES"}, cells); err != nil {
		return err
	}
	_, err = fmt.Fprintf(d.out, "\n%d visits. It took %.1f s.\n\nSQLite file  %s\nJSON lines   %s\neverything   %s\n",
		result.Visits, result.Seconds, result.Database, result.Lines, result.Folder)
	return err
}

func topPages(ctx context.Context, db *sql.DB) ([]pageRow, error) {
	rows, err := db.QueryContext(ctx, "SELECT path, sum(views), sum(bytes) FROM page_views GROUP BY path ORDER BY 2 DESC, 1 LIMIT 10")
	if err != nil {
		return nil, fmt.Errorf("reading the top pages: %w", err)
	}
	defer rows.Close()
	var pages []pageRow
	for rows.Next() {
		var p pageRow
		if err := rows.Scan(&p.Path, &p.Views, &p.Bytes); err != nil {
			return nil, fmt.Errorf("reading the top pages: %w", err)
		}
		pages = append(pages, p)
	}
	return pages, rows.Err()
}
