package fetch

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func answerWith(names ...string) []byte {
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf(`{"rfilename": %q, "size": 1, "blobId": "%040d"}`, name, 1))
	}
	return fmt.Appendf(nil, `{"sha": "%040d", "siblings": [%s]}`, 2, strings.Join(out, ","))
}

func TestListing_NamesThatLeadElsewhereAreInvalid(t *testing.T) {
	for _, names := range [][]string{{"../a"}, {"/etc/passwd"}, {"a/../../b"}, {"a//b"}, {"."}, {""}, {"a\\b"},
		{"a\x00b"}, {"a", "a"}, {"a", "a/b"}, {"a/b", "a"}, {strings.Repeat("x", 256)},
		{strings.Repeat("x/", 300) + "y"},
		{"w.incomplete"}} {
		if l, err := parse(answerWith(names...)); err == nil {
			t.Errorf("%q: %v, want an error", names, l)
		}
	}
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprint("f", i)
	}
	if _, err := parse(answerWith(many...)); err == nil || !strings.Contains(err.Error(), "100000 files") {
		t.Errorf("100,000 files: %v", err)
	}
	for _, text := range []string{"", "null", "{}", `{"sha": "main", "siblings": []}`,
		`{"sha": "` + strings.Repeat("0", 40) + `", "siblings": [{"rfilename": "a", "size": -1, "blobId": "` +
			strings.Repeat("0", 40) + `"}]}`,
		`{"sha": "` + strings.Repeat("0", 40) + `", "siblings": [{"rfilename": "a", "size": 1, "blobId": "../../x"}]}`,
	} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%s is a list of files", text)
		}
	}
	if l, err := parse(answerWith("b/c.json", "a")); err != nil || len(l.Files) != 2 || l.Files[0].Path != "a" {
		t.Errorf("%v %v", l, err)
	}
}

func FuzzListing_NoNameLeadsElsewhere(f *testing.F) {
	f.Add(answerWith("a", "b/c.gguf", "b/d-00001-of-00002.gguf"))
	f.Add([]byte(`{"sha": "x", "siblings": [{"lfs": {}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := parse(raw)
		if err != nil {
			return
		}
		r := &repository{dir: "/cache/models--a--b"}
		for _, file := range l.Files {
			path := filepath.Join(r.snapshot(l.Commit), filepath.FromSlash(file.Path))
			if !strings.HasPrefix(path, r.snapshot(l.Commit)+"/") || filepath.Dir(r.blob(file)) != r.dir+"/blobs" {
				t.Errorf("%q %q leads to %s", file.Path, file.Hash, path)
			}
		}
		for _, wanted := range []string{"", "Q4_K_M", "a"} {
			chosen, at, err := choose(l.Files, wanted)
			if err == nil && (len(chosen) == 0 || at != "" && checkPath(at) != nil) {
				t.Errorf("%q: chose %v at %q", wanted, chosen, at)
			}
		}
	})
}

func TestSelection_ChoosesAModel(t *testing.T) {
	for _, c := range []struct{ files, wanted, chosen, at, err string }{
		{"config.json model.safetensors pytorch_model.bin m.gguf .gitattributes", "",
			"config.json model.safetensors", "", ""},
		{"config.json pytorch_model.bin", "", "config.json pytorch_model.bin", "", ""},
		{"README.md m-Q8_0.gguf", "", "m-Q8_0.gguf", "m-Q8_0.gguf", ""},
		{"m-Q8_0.gguf m-Q4_K_M.gguf mmproj-f16.gguf", "", "m-Q4_K_M.gguf", "m-Q4_K_M.gguf", ""},
		{"m-Q8_0.gguf m-Q4_K_M.gguf", "q8_0", "m-Q8_0.gguf", "m-Q8_0.gguf", ""},
		{"m-Q8_0.gguf m-F16.gguf", "", "", "", "the model has 2 files in GGUF: write one of"},
		{"m-Q4_K_M.gguf m-Q4_K_S.gguf", "Q4_K", "", "", `has no file "Q4_K"`},
		{"a/Q4_K_M/x-00001-of-00002.gguf a/Q4_K_M/x-00002-of-00002.gguf", "Q4_K_M",
			"a/Q4_K_M/x-00001-of-00002.gguf a/Q4_K_M/x-00002-of-00002.gguf", "a/Q4_K_M/x-00001-of-00002.gguf", ""},
		{"a.json b.json", "b.json", "b.json", "b.json", ""},
	} {
		var files []file
		for _, name := range strings.Fields(c.files) {
			files = append(files, file{Path: name})
		}
		chosen, at, err := choose(files, c.wanted)
		var names []string
		for _, f := range chosen {
			names = append(names, f.Path)
		}
		if strings.Join(names, " ") != c.chosen || at != c.at || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %q: %v %q %v, want %s", c.files, c.wanted, names, at, err, c.chosen+c.err)
		}
	}
}
