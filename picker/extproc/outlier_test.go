package extproc

import (
	"errors"
	"testing"
	"time"
)

func TestOutlier_StalledPickerGetsOneRequestAtATime(t *testing.T) {
	var o outlier
	stalled := errors.New("stalled")
	at := time.Now()
	admitted := func() bool {
		t.Helper()
		open := o.open(at)
		_, err := o.admit(at)
		if open != (err == nil) {
			t.Errorf("open reports %t, admit %v, want %t", open, err, err == nil)
		}
		return err == nil
	}
	for range 2 {
		if !admitted() {
			t.Fatal("a picker without failures is left out")
		}
	}
	o.done(at, false, late, stalled)
	o.done(at, false, late, stalled) // the second late request in flight does not count
	for i, ejection := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		at = at.Add(ejection*time.Second - 1)
		if _, err := o.admit(at); !errors.Is(err, stalled) {
			t.Fatalf("ejection %d ended before %d s: %v, want %v", i, ejection, err, stalled)
		}
		at = at.Add(1)
		if !admitted() || admitted() {
			t.Fatalf("ejection %d: want one trial", i)
		}
		if i == 2 { // the trial's client disconnects, so another request becomes the trial
			if o.done(at, true, canceled, nil); !admitted() {
				t.Fatal("a client that left decided")
			}
		}
		o.done(at, true, late, stalled)
	}
	if at = at.Add(maxEjection); !admitted() {
		t.Fatal("no trial")
	}
	o.done(at, true, answered, nil)
	for range 2 {
		if !admitted() {
			t.Error("a picker that answers again is left out")
		}
	}
}
