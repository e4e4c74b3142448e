package docs

import (
	"strings"
	"testing"
)

func TestDocs_MatchComparesLineByLine(t *testing.T) {
	const output = "gateway  ready\nanswer 7 is 42\r\n\nend\n"
	for _, c := range []struct {
		shown string
		want  bool
	}{
		{output, true},
		{"gateway  ready\n...\nend", true},
		{"gateway  ready\nanswer ... is 42\n\nend", true},
		{"...", true},
		{"gateway ready\n...", false},
		{"gateway  ready\nend", false},
		{"...\nanswer 7", false},
		{"end\n...\ngateway  ready", false},
		{"...[0-9]...", false},
	} {
		if got := Match(c.shown, output); got != c.want {
			t.Errorf("Match(%q) = %v, want %v", c.shown, got, c.want)
		}
	}
}

func TestDocs_ParseSeparatesProseFromBlocks(t *testing.T) {
	p := Parse("x",
		"# Title\n\nOne two\nthree.\n\n- item\n\n```yaml test a/b.yaml\n# no heading\n```\n| cell |\n```sh shown (a "+
			"GPU)\nnvidia-smi\n```\n")
	if got, want := strings.Join(p.Prose, "|"), "One two three.|item"; got != want {
		t.Errorf("prose: got %q, want %q", got, want)
	}
	want := []Block{{8, "yaml", "test", "a/b.yaml", "# no heading\n"}, {12, "sh", "shown", "(a GPU)", "nvidia-smi\n"}}
	if len(p.Blocks) != 2 || p.Blocks[0] != want[0] || p.Blocks[1] != want[1] {
		t.Errorf("blocks: got %v, want %v", p.Blocks, want)
	}
	if len(p.Headings) != 1 || p.Headings[0] != "Title" || !p.Runs() {
		t.Errorf("got headings %q, runs %v, want Title and true", p.Headings, p.Runs())
	}
}
