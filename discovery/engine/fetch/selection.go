package fetch

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// usual is the quantization that choose prefers if a repository has several, as llama.cpp does.
const usual = "Q4_K_M"

// part matches the end of the name of a GGUF file that is one of several files of a model.
var part = regexp.MustCompile(`-(\d{5})-of-(\d{5})\.gguf$`)

// choose returns the files to fetch, and the path of the model within the snapshot; "": the
// snapshot itself is the model.
//
// wanted is the path of a file in the repository, or a quantization. If it is "" and the repository
// has safetensors or no GGUF file, choose returns all files except weights in other formats.
// Otherwise it returns one GGUF model: the only one, or the model with the quantization Q4_K_M.
func choose(files []file, wanted string) (chosen []file, at string, err error) {
	if wanted != "" {
		if i := slices.IndexFunc(files, func(f file) bool { return f.Path == wanted }); i >= 0 {
			return group(files, wanted), first(wanted), nil
		}
	}
	models, safetensors := map[string]bool{}, false
	for _, f := range files {
		switch path.Ext(f.Path) {
		case ".safetensors":
			safetensors = true
		case ".gguf":
			if !strings.Contains(strings.ToLower(path.Base(f.Path)), "mmproj") {
				models[first(f.Path)] = true
			}
		}
	}
	var names []string
	for name := range models {
		names = append(names, name)
	}
	slices.Sort(names)
	if wanted == "" && (safetensors || len(names) == 0) {
		if chosen = snapshot(files, safetensors); len(chosen) == 0 {
			return nil, "", wrong("name", "choose another model", "the model has no files")
		}
		return chosen, "", nil
	}
	matching := names
	if wanted != "" || len(names) > 1 {
		quant := wanted
		if quant == "" {
			quant = usual
		}
		matching = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !hasQuant(name, quant) })
	}
	if len(matching) == 1 {
		return group(files, matching[0]), matching[0], nil
	}
	fix := "write the path of a file"
	if len(names) > 0 {
		fix = "write one of " + list(names)
	}
	switch {
	case wanted == "":
		return nil, "", wrong("file", fix, "the model has %d files in GGUF", len(names))
	case len(matching) > 1:
		return nil, "", wrong("file", "write one of "+list(matching), "%s matches %d files", wanted, len(matching))
	}
	return nil, "", wrong("file", fix, "the model has no file %q", wanted)
}

// hasQuant reports whether the name of a GGUF file contains a quantization between separators.
func hasQuant(name, quant string) bool {
	name, quant = strings.ToUpper(part.ReplaceAllString(name, "")), strings.ToUpper(quant)
	name = strings.TrimSuffix(name, ".GGUF")
	for {
		_, after, found := strings.Cut(name, quant)
		if !found || quant == "" {
			return false
		}
		before := name[:len(name)-len(after)-len(quant)]
		begins := before == "" || strings.ContainsRune("-._/", rune(before[len(before)-1]))
		if begins && (after == "" || strings.ContainsRune("-./", rune(after[0]))) {
			return true
		}
		name = after
	}
}

// first returns the name of the first file of the GGUF model that has the file name.
func first(name string) string {
	m := part.FindStringSubmatch(name)
	if m == nil {
		return name
	}
	return strings.TrimSuffix(name, m[0]) + "-00001-of-" + m[2] + ".gguf"
}

func group(files []file, name string) (out []file) {
	for _, f := range files {
		if f.Path == name || part.MatchString(name) && first(f.Path) == first(name) {
			out = append(out, f)
		}
	}
	return out
}

// snapshot returns the files without weights in formats that engines do not need.
func snapshot(files []file, safetensors bool) []file {
	other := []string{".gguf", ".onnx", ".h5", ".msgpack", ".ot", ".tflite", ".mlmodel", ".ckpt"}
	if safetensors {
		other = append(other, ".bin", ".pt", ".pth")
	}
	return slices.DeleteFunc(slices.Clone(files), func(f file) bool {
		return slices.Contains(other, path.Ext(f.Path)) || f.Path == ".gitattributes" ||
			safetensors && (strings.HasPrefix(f.Path, "original/") || strings.HasPrefix(f.Path, "onnx/"))
	})
}

func list(names []string) string {
	const most = 12
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
