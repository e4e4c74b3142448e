package authz

import (
	"slices"
	"strings"
	"time"
)

// Reasons of a denial: the value of x-penstock-reason, and the code in the client's error.
const (
	ReasonInvalidKey   = "invalid_api_key" // no policy lets the key in, or there is none
	ReasonNotPermitted = "not_permitted"   // some policy does not let the key in
)

// Header is a header field of a request; names are in lower case.
type Header struct{ Name, Value string }

// Decision is what the policies above a route decide about a request.
type Decision struct {
	// Reason is why the request is denied; "" if it may pass.
	Reason string
	// Key is what the outermost policy that lets the request in selected; nil if none does.
	Key *Key
	// Remove names the headers with the credential.
	Remove []string
}

// Decide decides about a request with some headers, at a time. policies are the ones above its
// route, "namespace/name", the outermost first. Its error means that the Table cannot decide.
func (t *Table) Decide(policies []string, headers []Header, now time.Time) (d Decision, err error) {
	credential, carriers := presented(headers)
	// A missing or ambiguous credential takes the way of an unknown key.
	keys, all, err := t.find(HashOf(credential), policies)
	if err != nil {
		return d, err
	}
	if credential == "" {
		keys = nil
	}
	for _, p := range all {
		i := slices.IndexFunc(keys, p.selects)
		switch {
		case i < 0 || !keys[i].usable(now):
			d.Reason = ReasonNotPermitted
		case d.Key == nil:
			d.Key = keys[i]
		}
	}
	if d.Key == nil {
		return Decision{Reason: ReasonInvalidKey}, nil
	}
	if d.Remove = carriers; d.Reason != "" {
		d.Remove = nil
	}
	return d, nil
}

// maxCredential bounds a credential, in bytes.
const maxCredential = 1024

// presented returns the credential of a request and the headers that have it. Clients of OpenAI
// send Authorization, of Anthropic x-api-key, of Azure api-key. Some send one key in two of them.
// With different credentials it is ambiguous which one counts, so none does.
func presented(headers []Header) (credential string, carriers []string) {
	for _, h := range headers {
		value := strings.TrimSpace(h.Value)
		switch h.Name {
		case "x-api-key", "api-key":
		case "authorization":
			scheme, token, _ := strings.Cut(value, " ")
			if !strings.EqualFold(scheme, "bearer") {
				continue // a server's own
			}
			value = strings.TrimSpace(token)
		default:
			continue
		}
		if value == "" || len(value) > maxCredential || credential != "" && value != credential {
			return "", nil
		}
		credential = value
		if !slices.Contains(carriers, h.Name) {
			carriers = append(carriers, h.Name)
		}
	}
	return credential, carriers
}
