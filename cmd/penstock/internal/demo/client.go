package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/penstock-project/penstock/picker/modelserver"
)

const completions = "/v1/chat/completions"

type chat struct {
	Model      string    `json:"model"`
	Messages   []message `json:"messages"`
	MaxTokens  int       `json:"max_tokens,omitempty"`
	IgnoreEOS  bool      `json:"ignore_eos,omitempty"` // generate until max_tokens
	Stream     bool      `json:"stream,omitempty"`
	Route      *bool     `json:"route,omitempty"` // whether the pool's processor chooses the server
	key, keyIn string    // the API key, and the shell variable that printed commands show for it; "": none
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func question(model, text string, tokens int) chat {
	return chat{Model: model, Messages: []message{{Role: "user", Content: text}}, MaxTokens: tokens}
}

func long(model, text string, tokens int) chat {
	q := question(model, text, tokens)
	q.IgnoreEOS = true
	return q
}

func (c chat) json() string {
	text, _ := json.Marshal(c) // strings and numbers always marshal
	return string(text)
}

type answer struct {
	Status   int
	By, At   string // the model server's name and address, from the response's headers
	TokenIDs string // where the server got the prompt's token IDs, from a response header
	Text     string
	Took     time.Duration
}

func (d *show) ask(ctx context.Context, base string, c chat) answer {
	began := time.Now()
	a, body := d.post(ctx, base, c)
	defer body.Close()
	text := must(io.ReadAll(body))
	a.Text, a.Took = string(text), time.Since(began)
	var completion struct{ Choices []struct{ Message message } }
	if json.Unmarshal(text, &completion) == nil && len(completion.Choices) == 1 {
		a.Text = completion.Choices[0].Message.Content
	}
	return a
}

func (d *show) post(ctx context.Context, base string, c chat) (answer, io.ReadCloser) {
	req := must(http.NewRequestWithContext(ctx, http.MethodPost, base+completions, strings.NewReader(c.json())))
	req.Header.Set("content-type", "application/json")
	if c.key != "" {
		req.Header.Set("authorization", "Bearer "+c.key)
	}
	resp := must(d.http.Do(req))
	return answer{Status: resp.StatusCode, By: resp.Header.Get("x-served-by"), At: resp.Header.Get("x-served-at"),
		TokenIDs: resp.Header.Get(modelserver.TokensFromHeader)}, resp.Body
}

func (d *show) askFrom(prefix, path string, c chat) answer {
	a := d.ask(d.ctx, d.url+path, c)
	a.expectFrom(prefix)
	return a
}

func (a answer) expectFrom(prefix string) {
	expect(a.Status == http.StatusOK && strings.HasPrefix(a.By, prefix), "200 from one of %s*, got %d from %q: %s",
		prefix, a.Status, a.By, a.Text)
}

func (d *show) exchange(path string, c chat, from string) answer {
	d.curl(path, c)
	a := d.askFrom(from, path, c)
	d.answer(a)
	return a
}

func (d *show) get(url string) (int, []byte) {
	resp := must(d.http.Do(must(http.NewRequestWithContext(d.ctx, http.MethodGet, url, nil))))
	defer resp.Body.Close()
	return resp.StatusCode, must(io.ReadAll(resp.Body))
}

func (d *show) lastRequest(address string) (last struct {
	Headers http.Header
	Body    string
}) {
	_, body := d.get("http://" + address + "/debug/last")
	check(json.Unmarshal(body, &last))
	return last
}

type stream struct {
	answer
	io.Closer
	events *bufio.Scanner
}

func (d *show) open(base string, c chat) *stream {
	c.Stream = true
	a, body := d.post(d.ctx, base, c)
	s := &stream{a, body, bufio.NewScanner(body)}
	d.opened = append(d.opened, s)
	expect(a.Status == http.StatusOK, "a stream, got status %d", a.Status)
	return s
}

func (s *stream) read(chunk func(text string)) (n int, err error) {
	for s.events.Scan() {
		data, ok := strings.CutPrefix(s.events.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return n, nil
		}
		var event struct{ Choices []struct{ Delta message } }
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return n, fmt.Errorf("a chunk of the stream is no JSON: %w", err)
		}
		if len(event.Choices) == 1 && event.Choices[0].Delta.Content != "" {
			chunk(event.Choices[0].Delta.Content)
			n++
		}
	}
	return n, errors.Join(fmt.Errorf("the stream ended without [DONE]: %w", io.ErrUnexpectedEOF), s.events.Err())
}

func ignore(string) {}

type page struct {
	w      io.Writer
	colour bool
}

const bold, faint, red, green, yellow, cyan, magenta = "1", "2", "31", "32", "33", "36", "35"

func (p *page) paint(code, text string) string {
	if !p.colour || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// line ignores errors: when the terminal closes, a signal ends the demo.
func (p *page) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }
func (p *page) heading(text string)             { p.line("\n%s", p.paint(bold, text)) }

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

func (p *page) curl(prefix string, c chat) {
	flags := "-s"
	if c.Stream {
		flags = "-sN"
	}
	if c.key != "" {
		flags += fmt.Sprintf(` -H "Authorization: Bearer $%s"`, c.keyIn)
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
