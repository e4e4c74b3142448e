package demo

import (
	"embed"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

// config holds the YAML of the clusters of both demos. ${NAME} stands for a port: a cluster's name
// for its gateway's, NAME-picker for its picker's, and any other name for a model server's.
//
//go:embed config set steps.yaml
var config embed.FS

// render reads a file below a folder and fills in its ports.
func render(folder, file string, ports map[string]int) (string, error) {
	text, err := config.ReadFile(path.Join(folder, file))
	if err != nil {
		return "", err
	}
	var missing error
	out := os.Expand(string(text), func(name string) string {
		port, ok := ports[name]
		if !ok {
			missing = fmt.Errorf("%s: no port is named ${%s}", file, name)
		}
		return fmt.Sprint(port)
	})
	return out, missing
}

// excerpt returns the important lines of YAML: lines that end in a comment, their parent lines, and
// the kinds and names of their objects.
func excerpt(text string) (out []string) {
	for document := range strings.SplitSeq(text, "\n---\n") {
		var kept []string // the last line first
		above := -1       // the depth of the last one; its parent has less
		for _, line := range slices.Backward(strings.Split(document, "\n")) {
			head := above >= 0 && (strings.HasPrefix(line, "kind: ") || strings.HasPrefix(line, "metadata: "))
			if d := depth(line); d >= 0 && (d < above || head || strings.Contains(line, " # ")) {
				kept, above = append(kept, line), d
			}
		}
		if len(out) > 0 && len(kept) > 0 {
			out = append(out, "---")
		}
		slices.Reverse(kept)
		out = append(out, kept...)
	}
	return out
}

// depth returns the nesting depth of a line of YAML; -1 for a comment or an empty line. A list item
// is below a key of the same indentation.
func depth(line string) int {
	text := strings.TrimLeft(line, " ")
	switch {
	case text == "" || text[0] == '#':
		return -1
	case strings.HasPrefix(text, "- "):
		return 2*(len(line)-len(text)) + 1
	}
	return 2 * (len(line) - len(text))
}
