package publish

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/resource"
)

// Envoy stores the bytes of a secret before validating them, and ACKs the same bytes without
// validating them again. So marked makes the bytes unique if the proxy may have rejected them, on
// this or an earlier stream.

func (s *Stream) marked(it *item, now time.Time) *cache.Entry {
	if !s.resumed && !s.suspects.has(it.slot.ID) {
		return it.want
	}
	msg, err := decodeSecret(it.want.Body())
	if err != nil || !msg.mark(fmt.Sprintf("%x %x %x", now.UnixNano(), s.cursor.Number, s.nonce)) {
		return it.want
	}
	body, err := msg.encode()
	if err != nil {
		return it.want
	}
	return cache.Resent(it.want, body)
}

type secret struct {
	*tlsv3.Secret
	spiffe *tlsv3.SPIFFECertValidatorConfig
}

func decodeSecret(body []byte) (*secret, error) {
	out := &secret{Secret: &tlsv3.Secret{}}
	if err := proto.Unmarshal(body, out.Secret); err != nil {
		return nil, err
	}
	config := out.GetValidationContext().GetCustomValidatorConfig().GetTypedConfig()
	if config.MessageIs(&tlsv3.SPIFFECertValidatorConfig{}) {
		out.spiffe = &tlsv3.SPIFFECertValidatorConfig{}
		return out, config.UnmarshalTo(out.spiffe)
	}
	return out, nil
}

func (x *secret) encode() ([]byte, error) {
	if x.spiffe != nil {
		value, err := resource.Marshal(x.spiffe)
		if err != nil {
			return nil, err
		}
		config := x.GetValidationContext().GetCustomValidatorConfig()
		config.TypedConfig = &anypb.Any{TypeUrl: config.GetTypedConfig().GetTypeUrl(), Value: value}
	}
	return resource.Marshal(x.Secret)
}

// mark adds a line before the first PEM block, where PEM parsers ignore it. It returns false if
// there is no inline PEM.
func (x *secret) mark(text string) bool {
	at := x.GetTlsCertificate().GetCertificateChain()
	if at == nil {
		at = x.GetValidationContext().GetTrustedCa()
	}
	if at == nil && len(x.spiffe.GetTrustDomains()) > 0 {
		at = x.spiffe.GetTrustDomains()[0].GetTrustBundle()
	}
	pem, ok := at.GetSpecifier().(*corev3.DataSource_InlineBytes)
	if ok {
		pem.InlineBytes = slices.Concat([]byte(text+"\n"), pem.InlineBytes)
	}
	return ok
}

// newSecretQuarantine leaves out the certificates of rejected members of a cluster set. For any
// other secret it sends the last good version or a placeholder, because Envoy would use the
// rejected bytes for new listeners.
func newSecretQuarantine(target, before *cache.Entry, detail string) *quarantine {
	q := &quarantine{target: target, names: slices.Clone(target.Names)}
	x, err := decodeSecret(target.Body())
	if err != nil || len(x.spiffe.GetTrustDomains()) == 0 {
		if before == nil {
			before = placeholder(target, x)
			q.placed = before != nil
		}
		if before != nil {
			q.entry, q.then = before, func(bool, string) {}
		}
		return q
	}
	q.secret = x
	old := map[string][]byte{}
	if before != nil {
		q.good = before.Version
		if good, err := decodeSecret(before.Body()); err == nil {
			for _, d := range good.spiffe.GetTrustDomains() {
				old[d.GetName()], _ = resource.Marshal(d) // cannot fail: d was decoded
			}
		}
	}
	var suspects []*piece
	for _, d := range x.spiffe.GetTrustDomains() {
		raw, err := resource.Marshal(d)
		if err != nil {
			continue
		}
		p := &piece{level: levelMember, name: d.GetName(), raw: raw, old: old[d.GetName()], sends: raw}
		if !bytes.Equal(p.old, raw) {
			p.sends = p.old
			suspects = append(suspects, p)
		}
		q.whole.inner = append(q.whole.inner, p)
	}
	q.try(func(ok bool, _ string) {
		if !ok { // the proxy now rejects parts that it accepted before
			suspects = q.whole.inner
			for _, p := range suspects {
				p.old, p.sends = nil, nil
			}
		}
		q.groups = append(q.groups, &group{pieces: suspects, rejected: true, detail: detail})
		q.search()
	})
	return q
}

func (q *quarantine) encodeSecret() []byte {
	x := &secret{Secret: proto.CloneOf(q.secret.Secret), spiffe: &tlsv3.SPIFFECertValidatorConfig{}}
	for _, p := range q.whole.inner {
		d := &tlsv3.SPIFFECertValidatorConfig_TrustDomain{}
		if p.sends != nil && proto.Unmarshal(p.sends, d) == nil {
			x.spiffe.TrustDomains = append(x.spiffe.TrustDomains, d)
		}
	}
	if len(x.spiffe.GetTrustDomains()) == 0 {
		return nil
	}
	body, err := x.encode()
	if err != nil {
		return nil
	}
	return body
}

// A listener waits for a secret in flight: if the proxy rejects the secret, it still uses its bytes
// for new listeners.
func (w *waiting) secret(it *item) bool {
	if it.slot.Type != resource.Listener {
		return false
	}
	return slices.ContainsFunc(it.want.Names, func(n *cache.Slot) bool {
		user := w.s.items[resource.Secret][n]
		pending := n.Type == resource.Secret && user != nil && (user.flight != nil || user.quarantine != nil)
		return pending && w.before(it.since)
	})
}

// retryUsers resends rejected clusters and listeners that name the secret, because the proxy has
// replaced or dropped the secret that may have caused the rejection.
func (s *Stream) retryUsers(secret *cache.Slot, now time.Time) {
	for _, t := range []resource.Type{resource.Cluster, resource.Listener} {
		for _, it := range s.items[t] {
			if it.want != nil && it.rejected == it.want.Version && it.flight == nil && it.want.NamesSlot(secret) {
				s.dirty(it, true, now)
			}
		}
	}
}

// If one of a resource's secrets is faulty, Envoy rejects the secret that arrives last, even a
// valid one. So once the proxy accepts a secret, retryBeside resends rejected secrets of the same
// resource. A resent last good version does not count: two rejected secrets would resend each other
// forever. A placeholder counts once for each version.
func (s *Stream) retryBeside(secret *cache.Slot, placed bool, now time.Time) {
	for _, it := range s.items[resource.Secret] {
		if it.slot == secret && !placed || it.want == nil || it.rejected != it.want.Version ||
			it.flight != nil || it.quarantine != nil || placed && it.again == it.rejected {
			continue
		}
		for _, t := range []resource.Type{resource.Cluster, resource.Listener} {
			if slices.ContainsFunc(s.cursor.Each(t), func(user *cache.Slot) bool {
				e := user.Current()
				return e.NamesSlot(secret) && e.NamesSlot(it.slot) && (it.slot != secret || s.rejectsBeside(e, secret))
			}) {
				if placed {
					it.again = it.rejected
				}
				s.dirty(it, true, now)
			}
		}
	}
}

func (s *Stream) rejectsBeside(e *cache.Entry, secret *cache.Slot) bool {
	return slices.ContainsFunc(e.Names, func(n *cache.Slot) bool {
		other := s.items[resource.Secret][n]
		return n != secret && n.Type == resource.Secret && other != nil && other.rejected != ""
	})
}

// suspected reports whether to resend the rejected resource e, because the proxy has dropped a
// secret that it may have rejected. It also resends secrets of e from an earlier stream.
func (s *Stream) suspected(e *cache.Entry, now time.Time) (again bool) {
	for _, n := range e.Names {
		switch {
		case n.Type != resource.Secret:
		case s.suspects.has(n.ID) && !s.subscribed.has(n.ID):
			s.suspects.clear(n.ID)
			again = true
		case s.resumed && s.subscribed.has(n.ID) && !s.sent.has(n.ID):
			s.resend(n, now)
		}
	}
	return again
}
