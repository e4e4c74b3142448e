package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/manifests/release"
	"github.com/penstock-project/penstock/xds/wheel"
)

// supportPages have neither request bodies nor credentials. /debug/store is read only for the names
// to replace.
var supportPages = []struct{ file, page string }{
	{"status.json", "/status"}, {"proxies.json", "/proxies"}, {"clusters.json", "/clusters"},
	{"picks.json", "/debug/picks?last=200"}, {"serving.json", "/debug/serving"}, {"suspect.json", "/debug/suspect"},
	{"rates.json", "/debug/rates"}, {"metrics.txt", "/metrics"},
}

// maxSupportPage bounds a page, in bytes.
const maxSupportPage = 32 << 20

func newSupport() *cobra.Command {
	var t target
	var out string
	cmd := &cobra.Command{
		Use:   "support",
		Short: "Write an archive for a bug report, without names, addresses, bodies and secrets",
		Long: `Write an archive for a bug report: versions, objects and findings, Envoys, cluster set, the last 200 picks and metrics of each
process. Names and addresses are replaced by pseudonyms, the same one everywhere: name-7, address-3. Bodies of requests and
credentials are not in these pages at all. The command prints what the archive has: read it before you send it.`,
		Example: `  penstock support -f ./config
  penstock support --out penstock-support.tar.gz     # of the cluster that kubectl uses`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := t.replicas(cmd.Context())
			if err != nil {
				return err
			}
			return writeSupport(cmd, all, out)
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&out, "out", "penstock-support.tar.gz", "file to write; one that exists is not replaced")
	return cmd
}

func writeSupport(cmd *cobra.Command, all []running, out string) error {
	pages := map[string][]byte{}
	var order []string
	for i, at := range all {
		for _, p := range supportPages {
			name := fmt.Sprintf("%d/%s", i+1, p.file)
			text, err := at.read(cmd.Context(), p.page)
			if err != nil && i == 0 && p.page == "/status" {
				return err
			}
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s of process %d is missing: %v\n", p.page, i+1, err)
				continue
			}
			pages[name], order = text, append(order, name)
		}
	}
	d := newDisguise()
	for _, name := range order {
		d.learn(name, pages[name])
	}
	for i, at := range all {
		if err := d.learnObjects(cmd.Context(), at); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "objects of process %d are missing: %v: names that only they have may "+
				"be in the archive\n", i+1, err)
		}
	}
	clear(d.used)
	file, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("--out %s: the file exists: remove it, or write --out with another file", out)
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	zipped := gzip.NewWriter(file)
	archive := tar.NewWriter(zipped)
	add := func(name string, text []byte) error {
		header := &tar.Header{Name: "penstock-support/" + name, Mode: 0o600, Size: int64(len(text)),
			ModTime: time.Now()}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(text)
		fmt.Fprintf(cmd.OutOrStdout(), "%8d bytes  %s\n", len(text), name)
		return err
	}
	about := fmt.Sprintf("penstock %s\nEnvoy tested with %s\n%s %s/%s\nprocesses %d\nwritten %s\n", release.Version(),
		wheel.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, len(all), time.Now().UTC().Format(time.RFC3339))
	if err := add("versions.txt", []byte(about)); err != nil {
		return err
	}
	for _, name := range order {
		text, err := d.page(name, pages[name])
		if err == nil {
			err = add(name, text)
		}
		if err != nil {
			return err
		}
	}
	for _, end := range []func() error{archive.Close, zipped.Close, file.Close} {
		if err := end(); err != nil {
			return err
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d names and addresses are replaced. Read it before you send it.\n", out,
		len(d.used))
	return nil
}

func (r running) read(ctx context.Context, page string) ([]byte, error) {
	body, err := r.open(ctx, page)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return io.ReadAll(io.LimitReader(body, maxSupportPage))
}

// disguise replaces names by pseudonyms. Values of keptKeys, times, durations and numbers stay.
type disguise struct {
	names map[string]string // name -> pseudonym
	used  map[string]bool   // names that the archive has pseudonyms for
	words map[string]bool   // values of enums
}

func newDisguise() *disguise { return &disguise{names: map[string]string{}, used: map[string]bool{}} }

var (
	keptKeys = wordSet("severity kind group field status type reason version strategy state result outcome protocol " +
		"level mode stage decision unit typeUrl apiVersion time at since lastTransitionTime started routingMode " +
		"part le quantile priority code method")
	// Values of textKeys are sentences. Quoted parts, names and addresses in them are replaced.
	textKeys = wordSet("problem fix message error cause note text described page why findings")
	// Users choose the keys of namedMaps. Other keys are field names, unless they contain a
	// separator such as / or :.
	namedMaps = wordSet("missing problems")
	keptWords = wordSet("default http https penstock true false other")

	address  = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b|\[?[0-9a-fA-F]{0,4}(:[0-9a-fA-F]{0,4}){3,7}\]?`)
	hostName = regexp.MustCompile(`\b([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}\b`)
	quotes   = regexp.MustCompile(`"[^"]*"`)
	word     = regexp.MustCompile(stamp + `|[A-Za-z0-9][-A-Za-z0-9._]*[A-Za-z0-9]|[A-Za-z0-9]`)
	label    = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)
	own      = regexp.MustCompile(`^([a-z.-]+\.)?(penstock\.dev|k8s\.io|x-k8s\.io|kubernetes\.io|envoyproxy\.io)$`)
	measure  = regexp.MustCompile(`^(` + stamp + `|-?([0-9.]+(ns|us|µs|ms|s|m|h))+|-?[0-9.]+([eE][-+]?[0-9]+)?)$`)
)

const stamp = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[-+]\d\d:\d\d)`

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

func (d *disguise) pseudonym(value string) string {
	if keptWords[value] || own.MatchString(value) {
		return value
	}
	d.used[value] = true
	if to, ok := d.names[value]; ok {
		return to
	}
	to := fmt.Sprintf("name-%d", len(d.names)+1)
	if address.MatchString(value) {
		to = fmt.Sprintf("address-%d", len(d.names)+1)
	}
	d.names[value] = to
	return to
}

func (d *disguise) name(value string) string {
	return word.ReplaceAllStringFunc(d.addresses(value), func(w string) string {
		if strings.HasPrefix(w, "address-") || measure.MatchString(w) {
			return w
		}
		return d.pseudonym(w)
	})
}

func (d *disguise) addresses(text string) string {
	return address.ReplaceAllStringFunc(text, d.pseudonym)
}

func (d *disguise) sentence(text string) string {
	text = quotes.ReplaceAllStringFunc(text, func(q string) string { return `"` + d.name(strings.Trim(q, `"`)) + `"` })
	text = hostName.ReplaceAllStringFunc(d.addresses(text), d.pseudonym)
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if _, ok := d.names[w]; ok {
			return d.pseudonym(w)
		}
		return w
	})
}

// learn collects a page's names. It runs on all pages before the first replacement.
func (d *disguise) learn(name string, text []byte) { _, _ = d.page(name, text) }

func (d *disguise) page(name string, text []byte) ([]byte, error) {
	if strings.HasSuffix(name, ".txt") {
		return d.metrics(text), nil
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out, err := json.MarshalIndent(d.value("", value), "", " ")
	return append(out, '\n'), err
}

func (d *disguise) value(key string, value any) any {
	switch v := value.(type) {
	case string:
		switch {
		case keptKeys[key]:
			return v
		case textKeys[key]:
			return d.sentence(v)
		}
		return d.name(v)
	case []any:
		for i := range v {
			v[i] = d.value(key, v[i])
		}
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		out := map[string]any{}
		for _, k := range keys {
			to := k
			if namedMaps[key] || strings.ContainsAny(k, "/:@.") {
				to = d.name(k)
			}
			out[to] = d.value(k, v[k])
		}
		return out
	}
	return value
}

func (d *disguise) metrics(text []byte) []byte {
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxSupportPage)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "#") {
			line = label.ReplaceAllStringFunc(line, func(pair string) string {
				m := label.FindStringSubmatch(pair)
				switch {
				case keptKeys[m[1]]:
					return pair
				case textKeys[m[1]]:
					return m[1] + `="` + d.sentence(m[2]) + `"`
				}
				return m[1] + `="` + d.name(m[2]) + `"`
			})
		}
		out.WriteString(line + "\n")
	}
	return out.Bytes()
}
