package modelserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
)

const maxAdapters = 1024

type adapterName struct {
	Name string `json:"lora_name"`
	Path string `json:"lora_path"` // ignored
}

// The caller must not change the result.
func (s *Server) loras() []string { return *s.adapters.Load() }

// loadAdapter loads an adapter. It accepts any lora_path, from which vLLM reads files.
func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) {
	s.changeAdapters(w, r, "loaded", func(adapter adapterName, list []string) ([]string, error) {
		switch {
		case adapter.Path == "":
			return nil, badRequest("lora_path is missing")
		case adapter.Name == s.cfg.Model || slices.Contains(list, adapter.Name):
			return nil, badRequest("The lora adapter '%s' has already been loaded.", adapter.Name)
		case len(list) >= maxAdapters:
			return nil, badRequest("more than %d adapters are loaded", maxAdapters)
		}
		return append(slices.Clone(list), adapter.Name), nil
	})
}

func (s *Server) unloadAdapter(w http.ResponseWriter, r *http.Request) {
	s.changeAdapters(w, r, "removed", func(adapter adapterName, list []string) ([]string, error) {
		i := slices.Index(list, adapter.Name)
		if i < 0 {
			return nil,
				&apiError{http.StatusNotFound, "NotFoundError",
					fmt.Sprintf("The lora adapter '%s' cannot be found.", adapter.Name)}
		}
		return slices.Delete(slices.Clone(list), i, i+1), nil
	})
}

func (s *Server) changeAdapters(w http.ResponseWriter, r *http.Request, done string,
	change func(adapterName, []string) ([]string, error)) {
	var adapter adapterName
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
	if err != nil || json.Unmarshal(body, &adapter) != nil || adapter.Name == "" {
		failWith(w, badRequest("the body is not JSON with a lora_name"), writeError)
		return
	}
	for {
		old := s.adapters.Load()
		next, err := change(adapter, *old)
		if err != nil {
			failWith(w, err, writeError)
			return
		}
		if s.adapters.CompareAndSwap(old, &next) {
			break
		}
	}
	_, _ = fmt.Fprintf(w, "Success: LoRA adapter '%s' %s successfully.", adapter.Name, done)
}
