package docs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page is a Markdown file.
type Page struct {
	Name     string // file name without .md
	Text     string
	Blocks   []Block
	Prose    []string // paragraphs and list items, without headings and tables
	Headings []string
}

// Block is a fenced code block.
type Block struct {
	Line int // line of the opening fence
	Lang string
	Tag  string // test, lab, engines or shown
	Arg  string // file name, or (reason)
	Text string // "", or ends with a newline
}

// Root is the repository's path from a package folder in conformance.
const Root = "../.."

// Pages reads the pages in docs, sorted by name.
func Pages() ([]Page, error) {
	files, err := filepath.Glob(filepath.Join(Root, "docs", "*.md"))
	if err == nil && len(files) == 0 {
		err = errors.New("the folder has no pages")
	}
	if err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	pages := make([]Page, 0, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("docs: %w", err)
		}
		pages = append(pages, Parse(strings.TrimSuffix(filepath.Base(file), ".md"), string(text)))
	}
	return pages, nil
}

// All reads the pages in docs, docs/reference, the root and conformance. Names are paths without
// .md.
func All() ([]Page, error) {
	var pages []Page
	for _, folder := range []string{"docs", "docs/reference", ".", "conformance"} {
		files, err := filepath.Glob(filepath.Join(Root, folder, "*.md"))
		if err != nil {
			return nil, fmt.Errorf("docs: %w", err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("docs: %w", err)
			}
			name := path.Join(folder, strings.TrimSuffix(filepath.Base(file), ".md"))
			pages = append(pages, Parse(name, string(text)))
		}
	}
	return pages, nil
}

var (
	heading = regexp.MustCompile(`^#+ (.*)`)
	item    = regexp.MustCompile(`^ *([-*]|\d+\.) `)
)

// Parse parses a page. A fence is a line that begins with three backquotes.
func Parse(name, text string) Page {
	p := Page{Name: name, Text: text}
	var block *Block
	var paragraph []string
	end := func() {
		if len(paragraph) > 0 {
			p.Prose = append(p.Prose, strings.Join(paragraph, " "))
		}
		paragraph = nil
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		info, fence := strings.CutPrefix(line, "```")
		bare := strings.TrimSpace(line)
		switch {
		case fence && block != nil:
			p.Blocks, block = append(p.Blocks, *block), nil
		case fence:
			end()
			fields := append(strings.SplitN(strings.TrimSpace(info), " ", 3), "", "")
			block = &Block{Line: n, Lang: fields[0], Tag: fields[1], Arg: fields[2]}
		case block != nil:
			block.Text += line
		case heading.MatchString(bare):
			end()
			p.Headings = append(p.Headings, heading.FindStringSubmatch(bare)[1])
		case bare == "" || bare[0] == '|':
			end()
		default:
			if item.MatchString(line) {
				end()
			}
			paragraph = append(paragraph, item.ReplaceAllString(bare, ""))
		}
	}
	end()
	return p
}

// Runs reports whether a test runs a block of the page.
func (p Page) Runs() bool {
	return slices.ContainsFunc(p.Blocks, func(b Block) bool { return b.Tag == "test" })
}

// Match reports whether output has the lines of shown. "..." in a line matches any text; as a line,
// any lines.
func Match(shown, output string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(strings.TrimSpace(shown) + "\n") {
		if line == "...\n" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		quoted := regexp.QuoteMeta(strings.TrimRight(line, " \r\n"))
		pattern.WriteString(strings.ReplaceAll(quoted, `\.\.\.`, ".*") + ` *\n`)
	}
	output = strings.TrimSpace(strings.ReplaceAll(output, "\r\n", "\n")) + "\n" // curl -D prints \r\n
	matched, err := regexp.MatchString(`\A`+pattern.String()+`\z`, output)
	return err == nil && matched
}
