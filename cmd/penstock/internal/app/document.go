package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// documentInterval is how often the file is read. A watch would miss an update of a ConfigMap,
// which replaces a link in a parent folder.
const documentInterval = time.Second

// Document is an EndpointPickerConfig from a file or a flag. Its strategy applies to all pools.
type Document struct {
	path   string
	disk   *filesystem.Disk
	last   []byte
	config *endpointpicker.EndpointPickerConfig
}

// ReadDocument reads an EndpointPickerConfig from a file, or from text if path is "". It logs
// fields without effect.
func ReadDocument(disk *filesystem.Disk, path, text string, log *slog.Logger) (*Document, error) {
	d := &Document{path: path, disk: disk, last: []byte(text)}
	if path != "" {
		var err error
		if d.last, err = disk.Read(path); err != nil {
			return nil, err
		}
	}
	return d, d.parse(log)
}

func (d *Document) parse(log *slog.Logger) error {
	config, problems := endpointpicker.Read(string(d.last))
	var invalid []error
	for _, p := range problems {
		if p.Warning {
			log.Warn("a field of the EndpointPickerConfig has no effect", "problem", p.String())
		} else {
			invalid = append(invalid, errors.New(p.String()))
		}
	}
	if config == nil {
		return fmt.Errorf("the EndpointPickerConfig is invalid: %w", errors.Join(invalid...))
	}
	config.Name, config.Namespace = store.OwnPickerConfig, ""
	d.config = config
	return nil
}

func (d *Document) store(s *store.Store) error {
	_, err := s.Apply(store.EndpointPickerConfigs.Put(d.config))
	return err
}

// run logs an invalid or unreadable document once, and keeps the last valid document.
func (d *Document) run(ctx context.Context, s *store.Store, log *slog.Logger) error {
	if d.path == "" {
		return nil
	}
	tick := time.NewTicker(documentInterval)
	defer tick.Stop()
	missing := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		text, err := d.disk.Read(d.path)
		if err != nil {
			if !missing {
				log.Error("--config-file cannot be read; its last content stays in use", "error", err)
			}
			missing = true
			continue
		}
		if missing = false; bytes.Equal(text, d.last) {
			continue
		}
		d.last = text
		if err := d.parse(log); err != nil {
			log.Error("the new content of --config-file is not used; the last valid one stays", "error", err)
			continue
		}
		if err := d.store(s); err != nil {
			return err
		}
		log.Info("--config-file is read again", "file", d.path)
	}
}
