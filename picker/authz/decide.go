package authz

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/authz/jwt"
)

// A Reason is the value of x-penstock-reason, and the code in the client's error.
const (
	ReasonInvalidKey   = "invalid_api_key"     // no policy permits the key, or there is no key
	ReasonNotPermitted = "not_permitted"       // one policy permits the key, another does not
	ReasonModel        = "model_not_permitted" // the key does not list the model, or the model is unknown
	ReasonAttempts     = "too_many_attempts"
	ReasonPool         = "pool_not_permitted" // the key does not list each pool of the route
	ReasonClosed       = "policy_invalid"
)

// Header is a header field; names are in lower case.
type Header struct{ Name, Value string }

// Request is the input of a decision.
type Request struct {
	// Policies are the AccessPolicies ("namespace/name") that apply to the route, the outermost
	// first: a Gateway's before an HTTPRoute's.
	Policies []string
	// Early is set for the first of two decisions: Envoy does not yet know the model, and the route
	// may still change.
	Early bool
	// Any is set if Policies come from several possible routes. One policy that permits the key
	// suffices.
	Any bool
	// Pools are the pools that the route may reach (model.Route.Reaches), if they are Known.
	Pools []string
	Known bool
	// Model is the request's model; "" if it is unknown, or if two servers could read different
	// names from the body.
	Model string
	// Tokens is for a request with a JSON Web Token. It has, for each of Policies, the caller of
	// the verified token, or nil if the policy does not permit the token.
	Tokens []*Key
	// Lists is set for requests that our picker answers with a list of models. The list then has
	// only models that the key permits.
	Lists   bool
	Headers []Header
}

// Decision is the outcome for one request.
type Decision struct {
	// Reason is why the request is denied; "" if it may pass.
	Reason string
	// Policy is the first policy that does not permit the key, for ReasonNotPermitted and
	// ReasonClosed.
	Policy string
	// Key is the usable key that the policies select, or nil. If they select several keys, the
	// outermost policy's key counts.
	Key *Key
	// Restricted are the selected keys that permit only some models or pools.
	Restricted []*Key
	// Remove names the headers with the credential, which Envoy removes from the request.
	Remove []string
}

// Decide decides whether a request may pass at a given time. An error means that the Table lacks a
// policy.
func (t *Table) Decide(r Request, now time.Time) (d Decision, err error) {
	credential, carriers := presented(r.Headers)
	// Even a missing or ambiguous credential is looked up, so that every denial takes the same
	// time.
	keys, all, err := t.find(HashOf(credential), r.Policies)
	if err != nil {
		return d, err
	}
	if credential == "" {
		keys = nil
	}
	if d = decide(r, keys, all, now); d.Reason == "" {
		d.Remove = carriers
	}
	return d, nil
}

// DecideFor decides like Decide, but for the key with this name ("namespace/name").
func (t *Table) DecideFor(r Request, name string, now time.Time) (d Decision, err error) {
	_, all, err := t.find(Hash{}, r.Policies)
	if err != nil {
		return d, err
	}
	var keys []*Key
	if k := t.named(name); k != nil {
		keys = []*Key{k}
	}
	return decide(r, keys, all, now), nil
}

func decide(r Request, keys []*Key, all []*Policy, now time.Time) (d Decision) {
	for i, p := range all {
		k := (*Key)(nil)
		if at := slices.IndexFunc(keys, p.selects); at >= 0 {
			k = keys[at]
		} else if i < len(r.Tokens) {
			k = r.Tokens[i]
		}
		switch {
		case k != nil && k.usable(now):
			if d.Key == nil {
				d.Key = k
			}
			if k.Restricted() && !slices.Contains(d.Restricted, k) {
				d.Restricted = append(d.Restricted, k)
			}
		case !r.Any && d.Reason == "":
			if d.Reason, d.Policy = ReasonNotPermitted, r.Policies[i]; p.Closed {
				d.Reason = ReasonClosed
			}
		}
	}
	switch open := slices.ContainsFunc(all, func(p *Policy) bool { return !p.Closed }); {
	case d.Key == nil && !open: // no key could pass, so this reason reveals nothing about the key
		return Decision{Reason: ReasonClosed, Policy: r.Policies[0]}
	case d.Key == nil:
		return Decision{Reason: ReasonInvalidKey}
	}
	if d.Reason != "" || r.Lists {
		return d
	}
	for _, k := range d.Restricted {
		switch {
		case !k.reaches(r):
			d.Reason = ReasonPool
			return d
		case !r.Early && !k.Names(r.Model):
			d.Reason = ReasonModel
		}
	}
	return d
}

func (k *Key) reaches(r Request) bool {
	if !r.Known {
		return k.Pools == nil || r.Early
	}
	return !slices.ContainsFunc(r.Pools, func(pool string) bool { return !k.Reaches(pool) })
}

// Reaches reports whether a key permits requests to a pool or an import, in the form of
// model.Route.Reaches.
func (k *Key) Reaches(pool string) bool { return k.Pools == nil || slices.Contains(k.Pools, pool) }

// Restricted reports whether a key permits only some models or pools.
func (k *Key) Restricted() bool { return k.Models != nil || k.Pools != nil }

// Names reports whether a key permits requests for a model, by the name that clients send.
func (k *Key) Names(model string) bool {
	return k.Models == nil || model != "" && slices.ContainsFunc(k.Models, func(m string) bool {
		prefix, wide := strings.CutSuffix(m, "*")
		return wide && strings.HasPrefix(model, prefix) || m == model
	})
}

// MaxCredential bounds a credential, in bytes.
const MaxCredential = 1024

// presented returns the credential of a request, and the headers that contain it. One key may be in
// two headers, but two different keys count as no credential. An Authorization header with a scheme
// other than Bearer is for the model server, except if it contains the key.
func presented(headers []Header) (credential string, carriers []string) {
	var others []string
	for _, h := range headers {
		value := strings.TrimSpace(h.Value)
		switch h.Name {
		case "x-api-key", "api-key":
		case "authorization":
			scheme, token, _ := strings.Cut(value, " ")
			if !strings.EqualFold(scheme, "bearer") {
				others = append(others, value)
				continue
			}
			value = strings.TrimSpace(token)
		default:
			continue
		}
		if long := len(value) > MaxCredential && !jwt.Formed(value); value == "" || long ||
			credential != "" && value != credential {
			return "", nil
		}
		credential = value
		if !slices.Contains(carriers, h.Name) {
			carriers = append(carriers, h.Name)
		}
	}
	has := func(other string) bool { return credential != "" && strings.Contains(other, credential) }
	if slices.ContainsFunc(others, has) && !slices.Contains(carriers, "authorization") {
		carriers = append(carriers, "authorization")
	}
	return credential, carriers
}
