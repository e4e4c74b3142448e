package authz

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/authz/jwt"
)

// A Reason is the value of x-penstock-reason, and the code in the client's error.
const (
	ReasonInvalidKey   = "invalid_api_key"     // no policy lets the key in, or the request has no key
	ReasonNotPermitted = "not_permitted"       // a policy does not let the key in
	ReasonModel        = "model_not_permitted" // the key does not name the model, or the model is unknown
	ReasonAttempts     = "too_many_attempts"   // the client's address made too many failed attempts
	ReasonPool         = "pool_not_permitted"  // the key does not name each pool of the route
	ReasonClosed       = "policy_invalid"      // a policy is invalid, and lets nothing in
)

// Header is a header field of a request; names are in lower case.
type Header struct{ Name, Value string }

// Request is the input of a decision.
type Request struct {
	// Policies are the policies above the route, "namespace/name", the outermost first.
	Policies []string
	// Early is set before the model is known. The route may still change.
	Early bool
	// Any is set if Policies are above several possible routes. Then it suffices if one policy lets
	// the key in.
	Any bool
	// Pools are the pools that the route may reach (model.Route.Reaches), if Known.
	Pools []string
	Known bool
	// Model is the request's model, if every server reads the same name; otherwise "".
	Model string
	// Tokens is empty unless the request has a JSON Web Token. For each of Policies it has the
	// caller of the verified token, or nil if the policy does not let the token in.
	Tokens []*Key
	// Lists is set for requests that our picker answers with the list of models that the key
	// permits.
	Lists   bool
	Headers []Header
}

// Decision is the decision of the policies above a route about a request.
type Decision struct {
	// Reason is "" if the request may pass.
	Reason string
	// With ReasonNotPermitted and ReasonClosed, Policy is the first policy that does not let the
	// key in.
	Policy string
	// Key is the key that the outermost policy with a usable key selected, or nil.
	Key *Key
	// Restricted are the selected keys that do not permit everything.
	Restricted []*Key
	// Remove names the headers with the credential.
	Remove []string
}

// Decide decides at a given time. An error means that the Table cannot decide.
func (t *Table) Decide(r Request, now time.Time) (d Decision, err error) {
	credential, carriers := presented(r.Headers)
	// A missing or ambiguous credential is looked up, so that its denial takes the same time.
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
	case d.Key == nil && !open: // no key could pass, so the denial reveals nothing about this one
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

// Reaches reports whether a key permits a pool or an import. The parameter pool has the form of an
// element of model.Route.Reaches.
func (k *Key) Reaches(pool string) bool { return k.Pools == nil || slices.Contains(k.Pools, pool) }

// Restricted reports whether a key permits only some models or pools.
func (k *Key) Restricted() bool { return k.Models != nil || k.Pools != nil }

// Names reports whether a key permits a model by the name that clients send.
func (k *Key) Names(model string) bool {
	return k.Models == nil || model != "" && slices.ContainsFunc(k.Models, func(m string) bool {
		prefix, wide := strings.CutSuffix(m, "*")
		return wide && strings.HasPrefix(model, prefix) || m == model
	})
}

// MaxCredential bounds a credential, in bytes.
const MaxCredential = 1024

// Some clients send one key in two headers. Different keys count as no credential. An Authorization
// of another scheme is for the server, unless it contains the key.
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
