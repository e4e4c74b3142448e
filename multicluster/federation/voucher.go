package federation

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// voucher is what has members trust a bundle that a hub relays, although they trust the hub for no bundle: a signature of it by a certificate
// of the bundle before. So trust in an authority passes on to the next one, from the bundle in the ClusterSet on. A hub that keeps a
// state back, and sends it later, can do so as long as the certificate is valid.
type voucher struct {
	// Chain is the certificate of the exporter's process, in DER, and those between it and its authority.
	Chain [][]byte `json:"chain"`
	// Signature is that of vouchedText, ECDSA with SHA-256, in ASN.1.
	Signature []byte `json:"signature"`
}

// maxChain bounds the certificates of a voucher, in bytes.
const maxChain = 4 << 10

// vouchedText is what a voucher signs. It begins as no other text that a process signs does.
func vouchedText(member, bundle string) []byte {
	return fmt.Appendf(nil, "Penstock: bundle of member %s\n%s", member, bundle)
}

// voucher of this process for a bundle; nil, and a line of the log, if its certificate cannot sign.
func (f *Federation) voucher(bundle string) *voucher {
	v, err := f.sign(bundle)
	if err != nil {
		f.cfg.Log.Warn("members behind the hub cannot verify the next certificates of this cluster", "error", err)
		return nil
	}
	return v
}

func (f *Federation) sign(bundle string) (*voucher, error) {
	cert, err := f.cfg.Certificate()
	if err != nil {
		return nil, err
	}
	name, err := nameOf(cert)
	if err != nil {
		return nil, err
	}
	key, ok := cert.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("its key is a %T, not one of ECDSA", cert.PrivateKey)
	}
	digest := sha256.Sum256(vouchedText(name, bundle))
	signature, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
	return &voucher{Chain: cert.Certificate, Signature: signature}, err
}

// nameOf is the trust domain of a certificate with a SPIFFE ID.
func nameOf(cert *tls.Certificate) (string, error) {
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return "", err
	}
	if len(leaf.URIs) != 1 {
		return "", fmt.Errorf("it has %d URIs", len(leaf.URIs))
	}
	return leaf.URIs[0].Host, nil
}

// accept has the bundle in the state of a member trusted, and returns it as it is kept. That of a member which a hub relays needs a voucher: without
// one, what was trusted stays, and a bundle with anything else is an error.
func (t *trust) accept(m *Member, state cluster) (kept []byte, err error) {
	if m.Address == "" && len(m.Bundle) > 0 {
		if err := t.vouched(m.Name, state); err != nil {
			t.mu.RLock()
			defer t.mu.RUnlock()
			is := t.byName[m.Name]
			if bytes.Contains(TrustedBundle(is.bundle, is.published), []byte(state.Bundle)) {
				return is.published, nil
			}
			return is.published, fmt.Errorf("%w; run `penstock clusters show` there, and join it again here with --through-hub", err)
		}
	}
	return t.published(m.Name, []byte(state.Bundle)), nil
}

// vouched returns an error unless a member has signed the bundle in its state with a certificate that is trusted here.
func (t *trust) vouched(member string, state cluster) error {
	v := state.Voucher
	if v == nil {
		return errors.New("its bundle has no signature: the member runs an older release, or the hub has removed it")
	}
	var chain []*x509.Certificate
	size := 0
	for _, der := range v.Chain {
		if size += len(der); size > maxChain {
			return fmt.Errorf("the signature of its bundle has more than %d bytes of certificates", maxChain)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Errorf("the signature of its bundle: %w", err)
		}
		chain = append(chain, cert)
	}
	switch name, err := t.verify(chain, x509.ExtKeyUsageClientAuth); {
	case err != nil:
		return fmt.Errorf("the signature of its bundle: %w", err)
	case name != member:
		return fmt.Errorf("the signature of its bundle is that of member %s", name)
	}
	if err := chain[0].CheckSignature(x509.ECDSAWithSHA256, vouchedText(member, state.Bundle), v.Signature); err != nil {
		return fmt.Errorf("the signature of its bundle: %w", err)
	}
	return nil
}
