package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/broker/internal/disk"
	"github.com/millrace/millrace/broker/internal/ident"
	"github.com/millrace/millrace/broker/internal/partition"
)

// cleanMarkName is a file that is there only between a close without errors and
// the next start. Its name and content are Kafka's.
const (
	cleanMarkName = ".kafka_cleanshutdown"
	cleanMark     = `{"version":0,"brokerEpoch":-1}`
)

func writeCleanMark(files disk.FS, dir string) error {
	return replaceFile(files, dir, cleanMarkName, []byte(cleanMark))
}

// takeCleanMark reports whether the mark was there, and removes it durably: from
// now on a crash may happen.
func takeCleanMark(files disk.FS, dir string) (bool, error) {
	err := files.Remove(dir + "/" + cleanMarkName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = files.SyncDir(dir)
	}
	if err != nil {
		return false, fmt.Errorf("removing the mark of the clean stop: %w", err)
	}
	return true, nil
}

// The names of folders end so that are about to be removed, or were set aside.
const (
	graveSuffix = "-delete"
	straySuffix = "-stray"
)

// graveName returns the name for a folder that is about to be removed.
func graveName(tp ident.TopicPartition, id ident.TopicID) string {
	return nameOutOfUse(tp, id, graveSuffix)
}

// strayName returns the name for a folder that is set aside.
func strayName(tp ident.TopicPartition, id ident.TopicID) string {
	return nameOutOfUse(tp, id, straySuffix)
}

// nameOutOfUse returns a name that is unlike those of other topics, and at most
// 255 bytes long, which topic names nearly are.
func nameOutOfUse(tp ident.TopicPartition, id ident.TopicID, suffix string) string {
	return fmt.Sprintf("%.180s-%d.%x%s", tp.Topic, tp.Partition, id[:], suffix)
}

// parseFolderName splits "<topic>-<partition>".
func parseFolderName(name string) (tp ident.TopicPartition, ok bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return tp, false
	}
	n, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || n < 0 || name != fmt.Sprintf("%s-%d", name[:dash], n) {
		return tp, false
	}
	return ident.TopicPartition{Topic: name[:dash], Partition: int32(n)}, true
}

// openAll finds and opens the partitions.
func (m *Manager) openAll() error {
	saved, err := m.checkpoints.load()
	if err != nil {
		return err
	}
	clean, err := takeCleanMark(m.fs, m.dir)
	if err != nil {
		return err
	}
	entries, err := m.fs.ReadDir(m.dir)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(openAtOnce)
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() {
			continue
		}
		if strings.HasSuffix(name, graveSuffix) {
			g.Go(func() error { return m.fs.RemoveAll(m.dir + "/" + name) })
			continue
		}
		if tp, ok := parseFolderName(name); ok {
			g.Go(func() error { return m.openOne(tp, saved[tp], clean) })
		}
	}
	if err := g.Wait(); err != nil {
		return errors.Join(err, m.closeAll())
	}
	return nil
}

// openOne opens the partition in a folder of its name. Folders without a mark
// are not a partition, or one whose creation was cut short. A partition that
// cannot be opened is put in its place off line.
func (m *Manager) openOne(tp ident.TopicPartition, saved partition.Checkpoint, clean bool) error {
	id, ok, err := readPartitionMeta(m.fs, m.path(tp))
	if err != nil {
		return err
	}
	if !ok {
		m.cfg.Logger.Debug("folder is not a partition", "folder", m.path(tp))
		return nil
	}
	cfg := m.partitionConfig(tp, id, partition.Settings{}, saved, clean)
	p, err := partition.Open(cfg)
	if err != nil {
		m.cfg.Logger.Error("partition stays off line", "partition", tp.String(), "cause", err)
		if p, err = partition.NewOffline(cfg, err); err != nil {
			return err
		}
	}
	slot, err := m.slot(tp)
	if err != nil {
		return err
	}
	slot.p.Store(p)
	return nil
}
