package gates

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/picker/authz"
	"github.com/penstock-project/penstock/picker/authz/jwks"
	"github.com/penstock-project/penstock/picker/authz/jwt"
	"github.com/penstock-project/penstock/translator/access"
)

// issuers keeps the keys of the issuers that policies name. Keeper.follow guards it.
type issuers struct {
	board    Board
	fetcher  *jwks.Fetcher
	verifier *jwt.Verifier
	now      func() time.Time
	changed  chan struct{} // signals changed keys
	policies map[string]issuer
}

// removedGrace is how long the keys of a removed policy stay, which is as long as authz.Table keeps
// the policy.
const removedGrace = 10 * time.Minute

type issuer struct {
	owner  report.Ref
	source jwks.Source
	// known is false if an object that the policy names is missing. Nothing is then fetched.
	known bool
	field string   // the policy's field that has the source
	names []string // objects of the policy's namespace: "kind namespace/name"
	// removed is when the policy lost its jwt or was removed; zero: neither.
	removed time.Time
}

func newIssuers(cfg Config) *issuers {
	out := &issuers{board: cfg.Board, now: cfg.Now, changed: make(chan struct{}, 1), policies: map[string]issuer{}}
	fetch := cfg.Fetch
	if fetch.Now == nil {
		fetch.Now = cfg.Now
	}
	fetch.Changed = func() {
		select {
		case out.changed <- struct{}{}:
		default:
		}
	}
	out.fetcher = jwks.New(fetch)
	out.verifier = jwt.New(out.fetcher)
	return out
}

// Tokens verifies the tokens of clients.
func (k *Keeper) Tokens() *jwt.Verifier { return k.issuers.verifier }

// InlineTokens verifies tokens with the keys that policies have inline. It fetches no keys.
func InlineTokens() *jwt.Verifier { return jwt.New(inlineKeys{}) }

type inlineKeys struct{}

// Get implements jwt.Keys.
func (inlineKeys) Get(s jwks.Source) *jwks.Set {
	set, err := jwks.Parse([]byte(s.Inline))
	if err != nil {
		return nil
	}
	return set
}

// Refresh implements jwt.Keys.
func (inlineKeys) Refresh(context.Context, jwks.Source) bool { return false }

// Pending implements jwt.Keys.
func (inlineKeys) Pending(jwks.Source) bool { return false }

func objectKey(kind, id string) string { return kind + " " + id }

// ruleOf returns the rule by which a policy accepts tokens; nil: it accepts none.
func ruleOf(view *store.View, p *v1alpha1.AccessPolicy) *jwt.Rule {
	if p.Spec.JWT == nil {
		return nil
	}
	i := issuerOf(view, p)
	if !i.known {
		return nil // the policy's report states the problem
	}
	claims := p.Spec.JWT.Claims
	return &jwt.Rule{Namespace: p.Namespace, Source: i.source, Audiences: p.Spec.JWT.Audiences, Claims: jwt.Claims{
		Owner: cmp.Or(claims.Owner, "sub"), Groups: claims.Groups, Models: claims.Models, Objective: claims.Objective}}
}

func issuerOf(view *store.View, p *v1alpha1.AccessPolicy) issuer {
	spec := p.Spec.JWT
	found, problems := access.IssuerOf(view, p)
	out := issuer{owner: store.AccessPolicies.Ref(p), known: len(problems) == 0, field: "spec.jwt.issuer",
		source: jwks.Source{Issuer: spec.Issuer, CA: found.CA, Token: found.Token}}
	if spec.JWKS != nil {
		out.source.URI, out.source.Inline = spec.JWKS.URI, spec.JWKS.Inline
		if out.field = "spec.jwt.jwks.uri"; spec.JWKS.Inline != "" {
			out.field = "spec.jwt.jwks.inline"
			out.source.CA, out.source.Token = "", ""
		}
	}
	for _, ref := range spec.CACertificateRefs {
		out.names = append(out.names, objectKey(store.ConfigMaps.Kind(), objectid.Join(p.Namespace, ref.Name)))
	}
	if ref := spec.TokenSecretRef; ref != nil {
		out.names = append(out.names, objectKey(store.Secrets.Kind(), objectid.Join(p.Namespace, ref.Name)))
	}
	return out
}

func (i *issuers) naming(kind, id string) (policies []string) {
	for name, policy := range i.policies {
		if policy.removed.IsZero() && slices.Contains(policy.names, objectKey(kind, id)) {
			policies = append(policies, name)
		}
	}
	slices.Sort(policies)
	return policies
}

func (i *issuers) follow(view *store.View, changed map[string]*authz.Policy) {
	if len(changed) == 0 {
		return
	}
	for id := range changed {
		p, ok := store.AccessPolicies.Get(view, id)
		if ok && p.Spec.JWT != nil {
			i.policies[id] = issuerOf(view, p)
			continue
		}
		if former, had := i.policies[id]; had && former.removed.IsZero() {
			former.removed = i.now()
			i.policies[id] = former
			i.board.Replace(status.Instance(status.Tokens, id))
		}
	}
	maps.DeleteFunc(i.policies, func(_ string, policy issuer) bool {
		return !policy.removed.IsZero() && i.now().Sub(policy.removed) > removedGrace
	})
	var sources []jwks.Source
	for _, policy := range i.policies {
		if policy.known {
			sources = append(sources, policy.source)
		}
	}
	i.fetcher.Follow(sources)
	i.report()
}

func (i *issuers) report() {
	for _, id := range slices.Sorted(maps.Keys(i.policies)) {
		policy, source := i.policies[id], status.Instance(status.Tokens, id)
		if !policy.removed.IsZero() {
			continue
		}
		problem, kept := i.fetcher.Problem(policy.source)
		if !policy.known || problem == nil {
			i.board.Replace(source)
			continue
		}
		f := report.Finding{Severity: report.Warning, Owner: policy.owner, Field: policy.field, Fix: problem.Fix,
			Problem: "no token is let in without the issuer's keys: " + problem.Text}
		switch {
		case policy.source.Inline != "": // the keys are in the object, so no server is involved
			f.Severity, f.Fix = report.Error, "write the public keys of the issuer, as its server has them"
		case kept:
			f.Problem = fmt.Sprintf("the issuer's keys could not be fetched again, and the last ones stay in use: %s",
				problem.Text)
		}
		i.board.Replace(source, report.Report{Owner: policy.owner, Findings: []report.Finding{f}})
	}
}
