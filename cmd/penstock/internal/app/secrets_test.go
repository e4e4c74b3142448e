package app

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tracing "go.opentelemetry.io/otel/trace/noop"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/discovery/store/storetest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func local(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Every table gets an object with all fields of its type. No page, log or file that others can read
// may have a field that is declared secret.
func TestSecrets_FieldsOfEveryTableThatAreSecretAreShownNowhere(t *testing.T) {
	t.Parallel()
	state, log := t.TempDir(), &logged{}
	a, err := NewFolder(Config{
		StateDir: state, XDS: local(t), Picker: local(t),
		PickerAddresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9002")},
		Tracer:          tracing.NewTracerProvider(), DrainTime: time.Minute,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}, Folder{Paths: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	poll.Until(t, "the folder is read", a.progress.Begun)

	var texts []storetest.Text
	var ops []store.Op
	plain := 0 // number of texts that pages show unchanged
	queries := []string{
		"/metrics", "/status", "/status?output=text", "/proxies", "/clusters", "/debug/picks", "/debug/rates",
		"/debug/suspect",
		"/explain?url=http://a.example/v1/models",
	}
	for _, kind := range store.Tables() {
		obj, fields := storetest.Filled(kind)
		plain += len(fields)
		texts, ops = append(texts, fields...), append(ops, kind.PutObject(obj))
		obj, fields = storetest.WithCredentials(kind)
		texts, ops = append(texts, fields...), append(ops, kind.PutObject(obj))
		queries = append(queries, "/debug/store/"+kind.Kind(), "/debug/graph?key=canary-"+strings.ToLower(kind.Kind()))
	}
	rev, err := a.store.Apply(ops...)
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the objects are translated", func() bool { return a.progress.Revision() >= rev.N })
	pages := httptest.NewServer(a.allPages(a.openPages()))
	defer pages.Close()
	for _, gateway := range a.cache.Gateways() {
		queries = append(queries, "/debug/xds/dump?gateway="+gateway.Name)
	}
	shown := 0
	for _, query := range queries {
		recorder := httptest.NewRecorder()
		pages.Config.Handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, query, nil))
		shown += finds(t, query, recorder.Body.String(), texts)
	}
	if shown < plain/2 {
		t.Errorf("pages show %d fields of %d, which proves nothing, want at least %d", shown, plain, plain/2)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	finds(t, "the log", log.text.String(), texts)
	err = filepath.WalkDir(state, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		if info.Mode().Perm() != 0o600 || path == StatusFile(state) {
			finds(t, fmt.Sprint(info.Mode(), " ", path), string(raw), texts)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func finds(t *testing.T, where, page string, texts []storetest.Text) (shown int) {
	t.Helper()
	for _, text := range texts {
		encoded := strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(text.Value)), "=")
		if !strings.Contains(page, text.Value) && !strings.Contains(page, encoded[:len(encoded)-1]) {
			continue
		}
		if shown++; text.Secret {
			t.Errorf("%s has %s, want it without the value of %s", where, text.Value, text.Path)
		}
	}
	return shown
}
