package usage

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Other is the model, owner or pool of counts without a separate name.
const Other = "other"

// maxName bounds a name in a row, in bytes: clients choose the names of models.
const maxName = 256

// Key identifies a row's counts.
type Key struct {
	Hour  int64  `json:"hour,omitempty"`  // seconds since 1970; 0 means all hours
	Owner string `json:"owner,omitempty"` // "" for a denied request without an owner
	Model string `json:"model,omitempty"`
	Pool  string `json:"pool,omitempty"` // text of an objectid.Target, or a Service
}

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Hour, o.Hour), strings.Compare(k.Owner, o.Owner), strings.Compare(k.Model, o.Model),
		strings.Compare(k.Pool, o.Pool))
}

// Counts are sums over requests.
type Counts struct {
	Requests  int64 `json:"requests"` // allowed by the access check
	Denied    int64 `json:"denied"`
	Failed    int64 `json:"failed"`    // part of Requests: status 400 or above, or no complete response
	Estimated int64 `json:"estimated"` // part of Requests
	// Input counts the tokens of prompts, and Cached the cached ones among them. Output counts the
	// tokens of responses.
	Input      int64   `json:"input"`
	Cached     int64   `json:"cached"`
	Output     int64   `json:"output"`
	GPUSeconds float64 `json:"gpuSeconds"`
}

func (c *Counts) add(o Counts) {
	for _, pair := range [...]struct{ to, by *int64 }{
		{&c.Requests, &o.Requests}, {&c.Denied, &o.Denied}, {&c.Failed, &o.Failed}, {&c.Estimated, &o.Estimated},
		{&c.Input, &o.Input}, {&c.Cached, &o.Cached}, {&c.Output, &o.Output},
	} {
		if *pair.by > math.MaxInt64-*pair.to {
			*pair.to = math.MaxInt64
			continue
		}
		*pair.to += *pair.by
	}
	c.GPUSeconds += o.GPUSeconds
}

func (c *Counts) valid() bool {
	return min(c.Requests, c.Denied, c.Failed, c.Estimated, c.Input, c.Cached, c.Output) >= 0 && c.GPUSeconds >= 0 &&
		!math.IsInf(c.GPUSeconds, 0)
}

// Row has one key's counts.
type Row struct {
	Key
	Counts
}

type rows map[Key]*Counts

// maxKeys bounds the keys in memory and in one segment. Beyond maxKeys, new keys have the model
// Other. Beyond twice maxKeys, all names of new keys are Other.
const maxKeys = 20_000

func (r rows) add(k Key, c Counts) {
	if r[k] == nil && len(r) >= maxKeys {
		if k.Model = Other; r[k] == nil && len(r) >= 2*maxKeys {
			k = Key{Hour: k.Hour, Owner: Other, Model: Other, Pool: Other}
		}
	}
	at := r[k]
	if at == nil {
		at = &Counts{}
		r[k] = at
	}
	at.add(c)
}

func (r rows) sorted() []Row {
	out := make([]Row, 0, len(r))
	for k, c := range r {
		out = append(out, Row{k, *c})
	}
	slices.SortFunc(out, func(a, b Row) int { return a.Key.compare(b.Key) })
	return out
}

func clean(name string) string {
	if len(name) <= maxName && utf8.ValidString(name) && strings.IndexByte(name, 0) < 0 {
		return name
	}
	name = strings.ReplaceAll(strings.ToValidUTF8(name, "\uFFFD"), "\x00", "\uFFFD")
	for len(name) > maxName {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	return name
}
