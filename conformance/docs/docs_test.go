package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	pageBytes      = 8 << 10
	allBytes       = 160 << 10
	paragraphWords = 90
	sentenceWords  = 20.0
	shownPercent   = 15
)

func read(t *testing.T) []Page {
	t.Helper()
	pages, err := Pages()
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// tasks returns the pages that describe tasks. In envoy.md and comparison.md, only links are
// checked.
func tasks(t *testing.T) []Page {
	t.Helper()
	return slices.DeleteFunc(read(t), func(p Page) bool { return p.Name == "envoy" || p.Name == "comparison" })
}

// looked reports whether a page is for look-ups, without steps or a share of allBytes.
func looked(p Page) bool { return p.Name == "index" || p.Name == "glossary" }

// later are pages of newer features, which do not count against allBytes.
var later = []string{"access", "access-clusters", "access-invalid", "access-revoke", "server-keys", "jwt", "usage",
	"engines", "engines-fields", "engines-own", "workstation"}

func TestDocs_PagesAreShort(t *testing.T) {
	all := 0
	for _, p := range tasks(t) {
		if !looked(p) && !slices.Contains(later, p.Name) {
			all += len(p.Text)
		}
		if len(p.Text) > pageBytes {
			t.Errorf("docs/%s.md: got %d bytes, want at most %d", p.Name, len(p.Text), pageBytes)
		}
	}
	if all > allBytes {
		t.Errorf("all pages but the index and the glossary: got %d bytes, want at most %d", all, allBytes)
	}
}

func TestDocs_PagesHaveTheirSections(t *testing.T) {
	for _, p := range tasks(t) {
		if looked(p) || p.Name == "why-errors" { // why-errors is one table
			continue
		}
		for _, want := range []string{"Steps", "Check", "When it goes wrong", "Limits", "See also"} {
			if !slices.ContainsFunc(p.Headings, func(h string) bool { return strings.HasPrefix(h, want) }) {
				t.Errorf("docs/%s.md: got headings %q, want one that begins with %q", p.Name, p.Headings, want)
			}
		}
	}
}

func TestDocs_BlocksAreTested(t *testing.T) {
	tags, all := map[string]int{}, 0
	for _, p := range read(t) {
		for _, b := range p.Blocks {
			tags[b.Tag]++
			all++
			at := fmt.Sprintf("docs/%s.md:%d", p.Name, b.Line)
			switch {
			case !slices.Contains([]string{"test", "lab", "engines", "shown"}, b.Tag):
				t.Errorf("%s: got tag %q, want test, lab, engines or shown", at, b.Tag)
			case b.Tag == "shown" && !regexp.MustCompile(`^\(.+\)$`).MatchString(b.Arg):
				t.Errorf("%s: got shown %q, want a reason in parentheses", at, b.Arg)
			case b.Tag == "test" && (b.Lang == "sh" || b.Lang == "text") != (b.Arg == ""):
				t.Errorf("%s: got %s for the file %q, want a file for all languages but sh and text", at, b.Lang, b.Arg)
			}
		}
	}
	if tags["shown"]*100 > all*shownPercent {
		t.Errorf("got %d of %d blocks that are shown, want at most %d %%", tags["shown"], all, shownPercent)
	}
}

// A page with penstock commands links to the installation.
func TestDocs_PagesWithCommandsLinkToTheInstallation(t *testing.T) {
	checked := 0
	for _, p := range read(t) {
		runs := func(b Block) bool { return b.Lang == "sh" && b.Tag == "test" && len(commands(b.Text)) > 0 }
		if p.Name == "get-penstock" || !slices.ContainsFunc(p.Blocks, runs) {
			continue
		}
		if checked++; !strings.Contains(p.Text, "](get-penstock.md)") {
			t.Errorf("docs/%s.md runs penstock, and does not link to get-penstock.md", p.Name)
		}
	}
	if checked < 20 {
		t.Errorf("checked %d pages: this test looks in the wrong place", checked)
	}
}

// constructions matches phrases that CONTRIBUTING.md forbids.
var constructions = regexp.MustCompile(`(?i)\b(those of|that of|what (is|are)|(is|are) none)\b`)

var (
	code        = regexp.MustCompile("`[^`]*`")
	link        = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)
	sentenceEnd = regexp.MustCompile(`[.?!:]( |$)`)
)

func TestDocs_SentencesAreShort(t *testing.T) {
	words, sentences := 0, 0
	for _, p := range tasks(t) {
		w, s := 0, 0
		for _, text := range p.Prose {
			text = link.ReplaceAllString(code.ReplaceAllString(text, "code"), "$1")
			n := len(strings.Fields(text))
			if n > paragraphWords {
				t.Errorf("docs/%s.md: got a paragraph of %d words, want at most %d: %s", p.Name, n, paragraphWords,
					text)
			}
			w, s = w+n, s+max(1, len(sentenceEnd.FindAllString(text, -1)))
		}
		if mean := float64(w) / float64(max(1, s)); mean >= sentenceWords {
			t.Errorf("docs/%s.md: got %.1f words in the mean sentence, want fewer than %v", p.Name, mean, sentenceWords)
		}
		words, sentences = words+w, sentences+s
		for i, line := range strings.Split(p.Text, "\n") {
			if found := constructions.FindString(code.ReplaceAllString(line, "")); found != "" {
				t.Errorf("docs/%s.md:%d: got %q: name the thing again", p.Name, i+1, found)
			}
		}
	}
	t.Logf("%d words in %d sentences", words, sentences)
}

func TestDocs_LinksLeadSomewhere(t *testing.T) {
	pages, err := All()
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string][]string{}
	for _, p := range pages {
		anchors[p.Name+".md"] = slugs(p.Headings)
	}
	linked := map[string]bool{}
	for _, p := range pages {
		for _, m := range link.FindAllStringSubmatch(outside(p), -1) {
			file, anchor, _ := strings.Cut(m[2], "#")
			if strings.Contains(m[2], "://") {
				continue
			}
			if file == "" {
				file = p.Name + ".md"
			} else {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(p.Name), file))
			}
			if p.Name == "docs/index" {
				linked[file] = true
			}
			if _, err := os.Stat(filepath.Join(Root, file)); err != nil {
				t.Errorf("%s.md: %s leads nowhere: %v", p.Name, m[0], err)
			} else if anchor != "" && !slices.Contains(anchors[file], anchor) {
				t.Errorf("%s.md: %s: %s has no heading #%s", p.Name, m[0], file, anchor)
			}
		}
	}
	for _, p := range pages {
		task := filepath.Dir(p.Name) == "docs" && p.Name != "docs/index" || p.Name == "docs/reference/index"
		if task && !linked[p.Name+".md"] {
			t.Errorf("docs/index.md does not link to %s.md", p.Name)
		}
	}
}

// Generated pages have tables of at most four columns, and no code blocks.
func TestDocs_ReferenceIsReadable(t *testing.T) {
	pages, err := All()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, p := range pages {
		if filepath.Dir(p.Name) != "docs/reference" {
			continue
		}
		checked++
		if !strings.HasPrefix(p.Text, "<!-- Generated by ") {
			t.Errorf("%s.md: the first line does not state how the page is generated", p.Name)
		}
		for line := range strings.Lines(outside(p)) {
			cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") - 1
			if strings.HasPrefix(line, "|") && cells > 4 {
				t.Errorf("%s.md: got a table of %d columns, want at most 4: %s", p.Name, cells, line)
			}
		}
	}
	if checked < 30 {
		t.Errorf("checked %d pages: this test looks in the wrong place", checked)
	}
}

func outside(p Page) string {
	text := p.Text
	for _, b := range p.Blocks {
		text = strings.Replace(text, b.Text, "", 1)
	}
	return text
}

// slugs returns GitHub's anchors of headings.
func slugs(headings []string) []string {
	out := make([]string, len(headings))
	for i, h := range headings {
		h = strings.ToLower(link.ReplaceAllString(h, "$1"))
		out[i] = strings.ReplaceAll(regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(h, ""), " ", "-")
	}
	return out
}

// referenceOfCommands maps a command to its part of docs/reference.
func referenceOfCommands(t *testing.T) map[string]string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(Root, "docs", "reference", "penstock*.md"))
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{}
	section := regexp.MustCompile("(?m)^##? `(penstock(?:-external)?(?: [a-z]+)*)`$")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		at := section.FindAllStringSubmatchIndex(string(text), -1)
		for i, m := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			flags[string(text[m[2]:m[3]])] = string(text[m[1]:end])
		}
	}
	return flags
}

func checkCommand(t *testing.T, at string, flags map[string]string, args []string) {
	t.Helper()
	name := args[0]
	for _, word := range args[1:] {
		if flags[name+" "+word] == "" {
			break
		}
		name += " " + word
	}
	if flags[name] == "" {
		t.Errorf("%s: docs/reference has no command %q", at, strings.Join(args, " "))
	}
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		if strings.HasPrefix(flag, "-") && !regexp.MustCompile("[`, ]"+flag+"[`,]").MatchString(flags[name]) {
			t.Errorf("%s: %s has no flag %s", at, name, flag)
		}
	}
}

// Commands for a cluster or GPUs are not run, but their flags must exist.
func TestDocs_FlagsOfCommandsExist(t *testing.T) {
	flags := referenceOfCommands(t)
	checked := 0
	for _, p := range read(t) {
		for _, b := range p.Blocks {
			if b.Lang != "sh" {
				continue
			}
			for _, args := range commands(b.Text) {
				checkCommand(t, fmt.Sprintf("docs/%s.md:%d", p.Name, b.Line), flags, args)
				checked += len(args)
			}
		}
	}
	if checked < 20 {
		t.Errorf("checked %d words of commands: this test looks in the wrong place", checked)
	}
}

var command = regexp.MustCompile(`(?:^|[;&|(] *|do +|[$]\()(penstock(?:-external)? [a-z][^;&|)>#]*)`)

func commands(text string) (out [][]string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		for _, m := range command.FindAllStringSubmatch(strings.TrimSpace(line), -1) {
			out = append(out, strings.Fields(m[1]))
		}
	}
	return out
}
