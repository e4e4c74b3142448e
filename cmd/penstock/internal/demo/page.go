package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// page writes the demo's output while it runs.
type page struct {
	w      io.Writer
	colour bool
}

// Colours are ANSI codes.
const (
	bold, faint, red, green, yellow, cyan, magenta = "1", "2", "31", "32", "33", "36", "35"
)

func (p *page) paint(code, text string) string {
	if !p.colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// line writes a line. Errors are ignored: a closed terminal ends the demo by a signal.
func (p *page) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

func (p *page) heading(text string) { p.line("\n%s", p.paint(bold, text)) }

func (p *page) text(format string, args ...any) {
	for _, l := range wrap(fmt.Sprintf(format, args...), 96) {
		p.line("   %s", l)
	}
}

func (p *page) yaml(file, note string, lines []string) {
	p.line("   %s, %s", p.paint(yellow, file), note)
	for _, l := range lines {
		if i := strings.Index(l, " # "); i >= 0 {
			l = l[:i] + p.paint(faint, l[i:])
		}
		p.line("   %s %s", p.paint(faint, "│"), l)
	}
}

func (p *page) command(text string) { p.line("   %s %s", p.paint(faint, "$"), text) }

// curl shows the curl command of a request below prefix.
func (p *page) curl(prefix string, c chat) {
	flags := "-s"
	if c.Stream {
		flags = "-sN" // without a buffer
	}
	p.command(fmt.Sprintf("curl %s $GW%s \\\n       -d '%s'", flags, prefix+completions, c.json()))
}

func (p *page) output(text string) {
	for line := range strings.Lines(text) {
		p.line("     %s", p.paint(faint, strings.TrimRight(line, "\n")))
	}
}

func (p *page) by(server, format string, args ...any) {
	p.line("     %s  %s", p.column(server), fmt.Sprintf(format, args...))
}

func (p *page) answer(a answer) {
	p.by(a.By, "%q in %d ms", a.Text, a.Took.Round(time.Millisecond).Milliseconds())
}

func (p *page) because(text string) {
	label := "why"
	for _, l := range wrap(text, 90) {
		p.line("     %s %s", p.paint(faint, label), l)
		label = "   "
	}
}

func (p *page) ok(text string) { p.line("   %s %s", p.paint(green, "✓"), text) }

func (p *page) failed(err error) {
	p.line("   %s %s", p.paint(red, "✗"), strings.ReplaceAll(err.Error(), "\n", "\n     "))
}

// server writes the name of a model server, in the colour of its cluster.
func (p *page) server(name string) string {
	if strings.HasPrefix(name, "east-") {
		return p.paint(magenta, name)
	}
	return p.paint(cyan, name)
}

func (p *page) column(name string) string {
	return p.server(name) + strings.Repeat(" ", max(0, len("east-llama-1")-len(name)))
}

func bar(n, perBlock int) string { return strings.Repeat("█", (n+perBlock-1)/perBlock) }

// wrap splits text into lines of at most width characters, at spaces.
func wrap(text string, width int) (lines []string) {
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || utf8.RuneCountInString(lines[last]+" "+word) > width {
			lines = append(lines, word)
		} else {
			lines[last] += " " + word
		}
	}
	return lines
}
