package endpoint

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Adapters are the LoRA adapters on a model server's metrics page. They are immutable.
type Adapters struct {
	Running []string `json:"running,omitempty"`
	Waiting []string `json:"waiting,omitempty"` // all requests of these adapters wait
	Max     int      `json:"max"`               // maximum number of loaded adapters; 0 if unknown
}

// Has reports whether the adapter has running or waiting requests. The server then has loaded it,
// or will do so soon.
func (a *Adapters) Has(model string) bool {
	return a != nil && (slices.Contains(a.Running, model) || slices.Contains(a.Waiting, model))
}

// Runs reports whether requests for an adapter run.
func (a *Adapters) Runs(model string) bool { return a != nil && slices.Contains(a.Running, model) }

// Free reports whether the server can load another adapter without unloading one.
func (a *Adapters) Free() bool { return a != nil && len(a.Running)+len(a.Waiting) < a.Max }

type loraReader struct {
	latest float64
	labels []byte
	found  bool
}

func (r *loraReader) read(at float64, line []byte) {
	open := bytes.IndexByte(line, '{')
	if open < 0 || r.found && at < r.latest {
		return
	}
	labels := line[open+1:]
	r.found, r.latest = true, at
	r.labels = append(r.labels[:0], labels[:endOfLabels(labels)]...)
}

func (r *loraReader) adapters() *Adapters {
	if !r.found {
		return nil
	}
	a := &Adapters{}
	eachLabel(r.labels, func(name, text string) {
		switch name {
		case "running_lora_adapters":
			a.Running = adapterNames(text)
		case "waiting_lora_adapters":
			a.Waiting = adapterNames(text)
		case "max_lora":
			a.Max, _ = strconv.Atoi(text)
		}
	})
	a.Max = max(a.Max, 0)
	a.Waiting = slices.DeleteFunc(a.Waiting, func(name string) bool { return slices.Contains(a.Running, name) })
	return a
}

func adapterNames(text string) (names []string) {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func eachLabel(b []byte, f func(name, text string)) {
	for {
		b = bytes.TrimLeft(b, ", \t")
		name, rest, ok := bytes.Cut(b, []byte(`="`))
		if !ok {
			return
		}
		var text []byte
		end := -1
		for i := 0; i < len(rest) && end < 0; i++ {
			switch c := rest[i]; {
			case c == '"':
				end = i
			case c == '\\' && i+1 < len(rest):
				i++
				if c = rest[i]; c == 'n' {
					c = '\n'
				}
				text = append(text, c)
			default:
				text = append(text, c)
			}
		}
		if end < 0 {
			return
		}
		f(string(bytes.TrimSpace(name)), string(text))
		b = rest[end+1:]
	}
}
