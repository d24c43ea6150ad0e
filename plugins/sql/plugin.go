// Package sql is the connector for SQL databases; SQLite so far.
//
// The sink writes one table a topic. It can create tables and add columns from
// the records it sees, upsert by the record's key, and delete on tombstones.
// The source reads the new rows of tables by a column that only grows.
//
// Settings carry the names that users of Kafka's JDBC connectors know.
package sql

import (
	"github.com/millrace/millrace/sdk/connector"
)

// Plugin returns the plugin, called "sql".
func Plugin() connector.Plugin {
	return connector.Plugin{
		Name:      "sql",
		Version:   "0.1.0",
		Spec:      connector.Spec{Doc: "writes topics to tables of a SQL database (SQLite), and reads new rows of tables", Source: sourceFields(), Sink: sinkFields()},
		NewSource: func() connector.Source { return &source{} },
		NewSink:   func() connector.Sink { return &sink{} },
	}
}

// urlField is how both find the database.
func urlField() connector.Field {
	return connector.Field{Name: "connection.url", Type: connector.String, Required: true, Check: checkURL,
		Doc: "the database: sqlite:FILE, such as sqlite:/var/lib/app/app.db"}
}

// The ways to write a row, as values of insert.mode.
const (
	modeInsert = "insert"
	modeUpsert = "upsert"
)

func sinkFields() []connector.Field {
	return []connector.Field{
		urlField(),
		{Name: "insert.mode", Type: connector.String, Default: modeInsert, Valid: []string{modeInsert, modeUpsert},
			Doc: "insert adds a row for each record, and leaves a row alone whose primary key is there already; upsert changes that row"},
		{Name: "delete.enabled", Type: connector.Boolean, Default: "false",
			Doc: "whether a record without a value deletes the row of its key; otherwise it is a bad record. It needs insert.mode=upsert"},
		{Name: "table.name.format", Type: connector.String, Default: "${topic}",
			Doc: "the table of a topic; ${topic} stands for the topic's name, with _ for characters that would need quoting"},
		{Name: "pk.fields", Type: connector.List,
			Doc: "columns of the primary key, taken from the record's key; empty means all fields of the key, or one column called key if it is not an object"},
		{Name: "auto.create", Type: connector.Boolean, Default: "false",
			Doc: "whether a missing table is created, with the columns of the first record"},
		{Name: "auto.evolve", Type: connector.Boolean, Default: "false",
			Doc: "whether a field without a column adds one; otherwise such a record is a bad record"},
	}
}

type sinkConfig struct {
	URL        string   `setting:"connection.url"`
	Mode       string   `setting:"insert.mode"`
	Delete     bool     `setting:"delete.enabled"`
	Table      string   `setting:"table.name.format"`
	Key        []string `setting:"pk.fields"`
	AutoCreate bool     `setting:"auto.create"`
	AutoEvolve bool     `setting:"auto.evolve"`
}

func sourceFields() []connector.Field {
	return []connector.Field{
		urlField(),
		{Name: "table.whitelist", Type: connector.List, Required: true, Doc: "the tables to read, separated by commas"},
		{Name: "incrementing.column.name", Type: connector.String, Default: "id",
			Doc: "the column that only grows and is never NULL; rows are read in its order, and a row is new if its value is above the last one read"},
		{Name: "topic.prefix", Type: connector.String, Doc: "what stands before the table's name to make the topic's"},
		{Name: "poll.interval.ms", Type: connector.Duration, Default: "1s", Min: 1e6, Max: 24 * 3600 * 1e9, Doc: "the pause before looking for new rows again"},
		{Name: "batch.max.rows", Type: connector.Integer, Default: "1000", Min: 1, Max: 100_000, Doc: "the most rows that one query takes"},
		{Name: "follow", Type: connector.Boolean, Default: "true", Doc: "whether to wait for new rows; otherwise the task is done when it has read those that there are"},
	}
}
