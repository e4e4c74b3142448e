package expiry

import (
	"cmp"
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/certificates"
)

const (
	// Soon is how long before the end of a certificate its finding begins.
	Soon = 14 * 24 * time.Hour
	// maxBytes bounds the part of an entry that is parsed, in bytes. maxCertificates bounds a chain
	// or bundle.
	maxBytes, maxCertificates = 256 << 10, 64
	// maxSubject bounds a certificate's name in a finding, in bytes.
	maxSubject = 100
)

type certificate struct {
	entry string
	place int
	name  string
	ends  time.Time
}

// Board receives reports. *status.Board implements it.
type Board interface {
	Replace(source string, reports ...report.Report)
}

// Keeper reports certificates that have ended or end soon.
type Keeper struct {
	board Board
	ended *prometheus.GaugeVec
	wake  chan struct{} // has one element when a deadline may have changed

	mu      sync.Mutex
	objects map[report.Ref][]certificate
}

// New makes a Keeper without objects.
func New(board Board, metrics prometheus.Registerer) *Keeper {
	k := &Keeper{
		board: board, wake: make(chan struct{}, 1), objects: map[report.Ref][]certificate{},
		ended: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "penstock_certificates_ending",
			Help: "Certificates in Secrets and ConfigMaps that have ended (ended), or end within 14 days (soon).",
		}, []string{"state"}),
	}
	metrics.MustRegister(k.ended)
	return k
}

// Steps implements delivery.Part.
func (k *Keeper) Steps() []delivery.Step {
	return []delivery.Step{{Stage: delivery.Observe, Deliver: func(_ context.Context, c *delivery.Change) {
		k.Follow(c.View, c.Objects)
	}}}
}

// Follow applies a store change.
func (k *Keeper) Follow(r store.Reader, changed []store.Change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	differs := false
	for _, c := range changed {
		ref, list, ok := of(r, c.Table, c.ID)
		if !ok {
			continue
		}
		differs = differs || len(list) > 0 || len(k.objects[ref]) > 0
		if k.objects[ref] = list; len(list) == 0 {
			delete(k.objects, ref)
		}
	}
	if differs {
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// Run reports after each change, and when a certificate ends.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.wake:
		case <-timer.C:
		}
		timer.Reset(k.report(time.Now()))
	}
}

func (k *Keeper) report(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	reports, ended, soon, next := reports(k.objects, now)
	k.ended.WithLabelValues("ended").Set(float64(ended))
	k.ended.WithLabelValues("soon").Set(float64(soon))
	k.board.Replace(status.Certificates, reports...)
	return next
}

// Check returns the findings of all objects.
func Check(r store.Reader, now time.Time) []report.Report {
	objects := map[report.Ref][]certificate{}
	for _, s := range store.Secrets.All(r) {
		objects[store.Secrets.Ref(s)] = inSecret(s)
	}
	for _, m := range store.ConfigMaps.All(r) {
		objects[store.ConfigMaps.Ref(m)] = inConfigMap(m)
	}
	all, _, _, _ := reports(objects, now)
	return all
}

// reports returns findings. They are valid for next, which is at most a day, because clocks may be
// adjusted.
func reports(objects map[report.Ref][]certificate, now time.Time) (all []report.Report, ended, soon int,
	next time.Duration) {
	next = 24 * time.Hour
	order := func(a, b report.Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	for _, ref := range slices.SortedFunc(maps.Keys(objects), order) {
		rep := report.Report{Owner: ref}
		for _, c := range objects[ref] {
			left := c.ends.Sub(now)
			text := fmt.Sprintf("the certificate of %s (number %d) ends on %s", c.name, c.place,
				c.ends.UTC().Format(time.RFC3339))
			switch {
			case left <= 0:
				ended++
				text = fmt.Sprintf("the certificate of %s (number %d) has ended on %s: peers that verify it reject it",
					c.name, c.place, c.ends.UTC().Format(time.RFC3339))
			case left <= Soon:
				soon++
				next = min(next, left)
			default:
				next = min(next, left-Soon)
				continue
			}
			rep.Findings = append(rep.Findings, report.Finding{
				Severity: report.Warning, Owner: ref, Field: "data[" + c.entry + "]", Problem: text, Fix: "renew it",
			})
		}
		if len(rep.Findings) > 0 {
			all = append(all, rep)
		}
	}
	return all, ended, soon, next
}

func of(r store.Reader, table, id string) (ref report.Ref, list []certificate, ok bool) {
	switch table {
	case store.Secrets.Kind():
		if s, ok := store.Secrets.Get(r, id); ok {
			list = inSecret(s)
		}
		return store.RefOf(store.Secrets, id), list, true
	case store.ConfigMaps.Kind():
		if m, ok := store.ConfigMaps.Get(r, id); ok {
			list = inConfigMap(m)
		}
		return store.RefOf(store.ConfigMaps, id), list, true
	}
	return ref, nil, false
}

const caEntry = "ca.crt"

func inSecret(s *corev1.Secret) []certificate {
	return append(parse(corev1.TLSCertKey, s.Data[corev1.TLSCertKey]), parse(caEntry, s.Data[caEntry])...)
}

func inConfigMap(m *corev1.ConfigMap) []certificate { return parse(caEntry, []byte(m.Data[caEntry])) }

func parse(entry string, text []byte) (list []certificate) {
	if len(text) > maxBytes {
		return nil
	}
	for place := 1; place <= maxCertificates; place++ {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return list
		}
		c, err := certificates.Read(block.Bytes)
		if err != nil {
			continue
		}
		name := c.Subject.CommonName
		if len(c.DNSNames) > 0 {
			name = c.DNSNames[0]
		}
		if name == "" {
			name = c.Subject.String()
		}
		name = fmt.Sprintf("%q", name[:min(len(name), maxSubject)])
		list = append(list, certificate{entry: entry, place: place, name: name, ends: c.NotAfter})
	}
	return list
}
