package logs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
)

// The files that say whose a folder is (docs/format/data-folder.md).
const (
	metaName    = "meta.properties"
	metaVersion = 1

	partitionMetaName    = "partition.metadata"
	partitionMetaVersion = 0
)

// meta is what meta.properties says.
type meta struct {
	node    ident.BrokerID
	cluster string
}

// readMeta returns what the folder's meta.properties says; ok is false when
// there is none.
func readMeta(files disk.FS, dir string) (m meta, ok bool, err error) {
	path := dir + "/" + metaName
	b, err := readFile(files, path)
	if errors.Is(err, fs.ErrNotExist) {
		return meta{}, false, nil
	}
	if err != nil {
		return meta{}, false, err
	}
	m, err = parseMeta(path, string(b))
	return m, err == nil, remedied(err, "put it back from a backup, or remove it to have it written anew")
}

func parseMeta(path, text string) (meta, error) {
	values, err := parseLines(path, text, "=")
	if err != nil {
		return meta{}, err
	}
	version, err := values.number(path, "version")
	if err != nil {
		return meta{}, err
	}
	if version > metaVersion {
		return meta{}, &FormatError{File: path, Version: version, Known: metaVersion}
	}
	if version < metaVersion {
		return meta{}, &MetaError{File: path, Err: fmt.Errorf("format version %d is that of a cluster under ZooKeeper", version)}
	}
	node, err := values.number(path, "node.id")
	if err != nil {
		return meta{}, err
	}
	cluster, ok := values["cluster.id"]
	if !ok || cluster == "" {
		return meta{}, &MetaError{File: path, Err: errors.New("cluster.id is missing")}
	}
	return meta{node: ident.BrokerID(node), cluster: cluster}, nil
}

func (m meta) write(files disk.FS, dir string) error {
	text := fmt.Sprintf("#\ncluster.id=%s\nnode.id=%d\nversion=%d\n", m.cluster, m.node, metaVersion)
	return replaceFile(files, dir, metaName, []byte(text))
}

// readPartitionMeta returns the topic id that a partition's folder is marked
// with; ok is false when it is not marked.
func readPartitionMeta(files disk.FS, dir string) (id ident.TopicID, ok bool, err error) {
	path := dir + "/" + partitionMetaName
	b, err := readFile(files, path)
	if errors.Is(err, fs.ErrNotExist) {
		return id, false, nil
	}
	if err != nil {
		return id, false, err
	}
	id, err = parsePartitionMeta(path, string(b))
	return id, err == nil, remedied(err, "write the topic's id into it, as in the topic's other partitions, or move its folder away")
}

func parsePartitionMeta(path, text string) (ident.TopicID, error) {
	values, err := parseLines(path, text, ":")
	if err != nil {
		return ident.TopicID{}, err
	}
	version, err := values.number(path, "version")
	if err != nil {
		return ident.TopicID{}, err
	}
	if version > partitionMetaVersion {
		return ident.TopicID{}, &FormatError{File: path, Version: version, Known: partitionMetaVersion}
	}
	raw, err := base64.RawURLEncoding.DecodeString(values["topic_id"])
	if err == nil && len(raw) != len(ident.TopicID{}) {
		err = fmt.Errorf("it has %d bytes", len(raw))
	}
	if err != nil {
		return ident.TopicID{}, &MetaError{File: path, Err: fmt.Errorf("topic_id %.40q is not one: %w", values["topic_id"], err)}
	}
	return ident.TopicID(raw), nil
}

// writePartitionMeta marks a new folder. The mark is durable when the log in it
// is, which syncs the folder before anything is appended.
func writePartitionMeta(files disk.FS, dir string, id ident.TopicID) error {
	text := fmt.Sprintf("version: %d\ntopic_id: %v\n", partitionMetaVersion, id)
	return placeFile(files, dir, partitionMetaName, []byte(text))
}

// properties are the values of a small text file.
type properties map[string]string

// parseLines reads lines of a key, sep and a value. Empty lines and those that
// begin with # are passed over.
func parseLines(path, text, sep string) (properties, error) {
	out := make(properties)
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := strings.Cut(line, sep)
		if !ok {
			return nil, &MetaError{File: path, Line: i + 1, Err: fmt.Errorf("expected key%svalue, found %.40q", sep, line)}
		}
		out[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return out, nil
}

// number returns a value that is not negative.
func (p properties) number(path, key string) (int, error) {
	text, ok := p[key]
	if !ok {
		return 0, &MetaError{File: path, Err: fmt.Errorf("%s is missing", key)}
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, &MetaError{File: path, Err: fmt.Errorf("%s is %.40q, not a number", key, text)}
	}
	return int(n), nil
}
