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

// Page is one Markdown file.
type Page struct {
	Name     string // file name without .md
	Text     string
	Blocks   []Block
	Prose    []string // paragraphs and items of lists; neither headings nor tables
	Headings []string
}

// Block is one fenced block of a page.
type Block struct {
	Line int // line of the first fence
	Lang string
	Tag  string // test, lab, engines or shown
	Arg  string // the file's name, or (reason)
	Text string // ends with a newline, unless empty
}

// Root is the path of the repository from the folder of a package in conformance.
const Root = "../.."

// Pages reads the pages of the folder docs, sorted by name.
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

// All reads every page for users: docs, docs/reference, the root, and conformance/README.md. Names
// are paths from the root, without .md.
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

// Runs reports whether the page has blocks that a test runs.
func (p Page) Runs() bool {
	return slices.ContainsFunc(p.Blocks, func(b Block) bool { return b.Tag == "test" })
}

// Match reports whether the output of a command has the lines that a page shows. "..." inside a
// line matches any text. A line "..." matches any number of lines.
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
	output = strings.TrimSpace(strings.ReplaceAll(output, "\r\n", "\n")) + "\n" // curl -D prints headers with \r\n
	matched, err := regexp.MatchString(`\A`+pattern.String()+`\z`, output)
	return err == nil && matched
}
