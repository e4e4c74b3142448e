package app

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/cmd/penstock/internal/pipeline"
	"github.com/penstock-project/penstock/discovery/filesystem"
)

func TestHealth_HungCredentialFileIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &filesystem.Disk{}
		a := &App{cfg: Config{Disk: d}, core: core{translation: &pipeline.Translation{}}}
		health := func() (int, string) {
			w := httptest.NewRecorder()
			a.healthz(w, httptest.NewRequest("GET", "/healthz", nil))
			return w.Code, w.Body.String()
		}
		answers := make(chan struct{})
		_, _ = filesystem.Do(t.Context(), d, "/mount/tls.crt", func() (int, error) { <-answers; return 0, nil })
		if code, text := health(); code != 200 {
			t.Errorf("after the timeout of one read: %d %s, want 200", code, text)
		}
		time.Sleep(filesystem.StuckAfter)
		if code, text := health(); code != 503 || !strings.Contains(text,
			"/mount/tls.crt has been read for half a minute") {
			t.Errorf(`%d %s, want 503 and a text with "/mount/tls.crt has been read for half a minute"`, code, text)
		}
		close(answers)
		synctest.Wait()
		if code, text := health(); code != 200 {
			t.Errorf("once it has answered: %d %s, want 200", code, text)
		}
	})
}
