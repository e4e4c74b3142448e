package demo

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// config holds the YAML of the clusters of both demos. ${NAME} stands for a port: a cluster's name
// for its gateway's, NAME-picker for its picker's, and any other name for a model server's.
//
//go:embed config set steps.yaml
var config embed.FS

var placeholder = regexp.MustCompile(`\$\{([a-z0-9-]+)\}`)

// render reads a file below a folder and fills in its ports.
func render(folder, name string, ports map[string]int) (string, error) {
	text, err := config.ReadFile(path.Join(folder, name))
	if err != nil {
		return "", err
	}
	var missing error
	out := placeholder.ReplaceAllStringFunc(string(text), func(match string) string {
		port, ok := ports[match[2:len(match)-1]]
		if !ok {
			missing = fmt.Errorf("%s: no port is named %s", name, match)
		}
		return fmt.Sprint(port)
	})
	return out, missing
}

// save writes a file, which appears atomically.
func save(target, text string) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(target+".tmp", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(target+".tmp", target)
}

// excerpt returns the important lines of YAML: lines that end in a comment, their parent lines, and
// the kinds and names of their objects.
func excerpt(text string) []string {
	var out []string
	for document := range strings.SplitSeq(text, "\n---\n") {
		lines := strings.Split(document, "\n")
		keep := make([]bool, len(lines))
		for i, line := range lines {
			before, _, commented := strings.Cut(line, " # ")
			if !commented || strings.TrimSpace(before) == "" {
				continue
			}
			keep[i] = true
			at := depth(line)
			for j := i - 1; j >= 0; j-- {
				if d := depth(lines[j]); d >= 0 && d < at {
					keep[j], at = true, d
				}
				keep[j] = keep[j] || strings.HasPrefix(lines[j], "kind: ") || strings.HasPrefix(lines[j], "metadata: ")
			}
		}
		if len(out) > 0 && slices.Contains(keep, true) {
			out = append(out, "---")
		}
		for i, line := range lines {
			if keep[i] {
				out = append(out, line)
			}
		}
	}
	return out
}

// depth returns the nesting depth of a line of YAML; -1 for a comment or an empty line. A list item
// is below a key of the same indentation.
func depth(line string) int {
	text := strings.TrimLeft(line, " ")
	if text == "" || strings.HasPrefix(text, "#") {
		return -1
	}
	d := 2 * (len(line) - len(text))
	if strings.HasPrefix(text, "- ") {
		d++
	}
	return d
}
