package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	fetchSize   = 1 << 30
	fetchRounds = 5
	fetchCommit = "0123456789abcdef0123456789abcdef01234567"
)

// measureFetch alternates penstock pull with curl and sha256sum, from one server to one file
// system.
func measureFetch(ctx context.Context, c config, out report) error {
	dir, err := os.MkdirTemp("", "fetch")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "model.gguf")
	sum, err := writeModel(file)
	if err != nil {
		return err
	}
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, file)
	}))
	defer store.Close()
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/resolve/") {
			http.Redirect(w, r, store.URL+"/blob", http.StatusFound)
			return
		}
		_, _ = fmt.Fprintf(w, `{"sha": %q, "siblings": [{"rfilename": "model.gguf", "size": %d, "lfs": {"sha256": %q, `+
			`"size": %d}}]}`, fetchCommit, int64(fetchSize), sum, int64(fetchSize))
	}))
	defer hub.Close()
	var ratios, rates []float64
	for range fetchRounds {
		cache, plain := filepath.Join(dir, "hub"), filepath.Join(dir, "plain")
		pull := exec.CommandContext(ctx, c.penstock, "pull", "hf:org/model", "--registry", hub.URL)
		pull.Env = append(os.Environ(), "HF_HUB_CACHE="+cache)
		penstock, err := timedRun(pull)
		if err != nil {
			return err
		}
		const script = `curl -sSfL -o "$1" "$2/org/model/resolve/main/model.gguf" && sha256sum "$1"`
		curl, err := timedRun(exec.CommandContext(ctx, "sh", "-c", script, "sh", plain, hub.URL))
		if err != nil {
			return err
		}
		ratios = append(ratios, penstock.Seconds()/curl.Seconds())
		rates = append(rates, fetchSize/(1<<20)/penstock.Seconds())
		if err := os.RemoveAll(cache); err != nil {
			return err
		}
		if err := os.Remove(plain); err != nil {
			return err
		}
	}
	slices.Sort(ratios)
	slices.Sort(rates)
	out("fetch_rate", "", ratios[len(ratios)/2])
	out("fetch_rate", "mib_per_s", rates[len(rates)/2])
	return nil
}

func timedRun(cmd *exec.Cmd) (time.Duration, error) {
	began := time.Now()
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", cmd, err, text)
	}
	return time.Since(began), nil
}

func writeModel(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h, r := sha256.New(), rand.New(rand.NewPCG(1, 1))
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(r.Uint32())
	}
	for i := range fetchSize / len(block) {
		block[0], block[1] = byte(i), byte(i>>8)
		if _, err := f.Write(block); err != nil {
			return "", err
		}
		h.Write(block)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
