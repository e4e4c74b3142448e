package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// busyStreams are the long answers that keep east busy, of busyTokens each.
const busyStreams, busyTokens = 40, 20_000

// leastLoaded makes requests go where they wait least, while east is busy with its own clients'
// requests.
func leastLoaded(ctx context.Context, t *tour, p *page) (string, error) {
	text, err := write(t.dir, "set/here/policy.yaml", t.ports)
	if err != nil {
		return "", err
	}
	p.yaml("here/policy.yaml", "saved", excerpt(text))
	q := question("llama", "Count sheep")
	q.MaxTokens, q.IgnoreEOS, q.Stream = busyTokens, true, true
	p.text(fmt.Sprintf("Clients of east ask it for %d long answers:", busyStreams))
	p.command(fmt.Sprintf("curl -s %s%s -d '%s' # %d times", t.clusters["east"].url, completions, q.json(),
		busyStreams))
	for range busyStreams {
		answer, err := t.open(ctx, t.clusters["east"].url, q)
		if err != nil {
			return "", err
		}
		defer answer.close()
	}
	n, err := t.shares(ctx, p, "west")
	if err != nil {
		return "", err
	}
	why, err := t.penstock(ctx, p, "here", "", "", "explain", "--last", "1", "--pool", "default/llama@")
	p.output(strings.Split(strings.TrimRight(why, "\n"), "\n"))
	return fmt.Sprintf("%d requests here while east is busy, and west serves all", n), err
}

// lost ends everything in west but its model servers while requests go on, and starts it again.
func lost(ctx context.Context, t *tour, p *page) (string, error) {
	if err := os.Remove(filepath.Join(t.folder("here"), "policy.yaml")); err != nil {
		return "", err
	}
	if _, err := t.shares(ctx, p, "east", "west"); err != nil {
		return "", err
	}
	l := t.traffic(ctx)
	p.command("# Ctrl-C in the terminals of west's penstock up and penstock picker")
	t.stops["west"]()
	t.stops[epp]()
	after, err := t.shares(ctx, p, "east")
	if err == nil {
		t.start("west")
		t.startPicker()
		_, err = t.clusters["west"].served(ctx)
	}
	if err == nil {
		_, err = t.servedBy(ctx, "west")
	}
	n, _, failed := l.ended(p)
	return fmt.Sprintf("%d requests, of which %d while west was lost, and none failed; west serves again", n+after,
		after), errors.Join(err, failed)
}
