package certificates

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// maxSize limits a certificate, and maxTotal all certificates of a member, in bytes of DER.
	maxSize, maxTotal = 4 << 10, 8 << 10
	// maxCount limits a member's certificates. An authority has two, and four during its
	// replacement.
	maxCount = 8
	// maxSerial limits serial numbers, in bits (RFC 5280, 4.1.2.2).
	maxSerial = 160
	// maxSubjects and maxShare are in bytes. A TLS handshake lists the subjects of all members'
	// authorities, and fails above 65,535 bytes (RFC 8446, 4.2.4).
	maxSubjects, maxShare = 64_000, 1024
)

// Share returns how many bytes of certificate subjects each member may have.
func Share(members int) int { return min(maxShare, maxSubjects/max(members, 1)) }

// Vouches returns why a certificate cannot verify a member, or nil. It ignores the validity period.
func Vouches(c *x509.Certificate) error {
	if err := Readable(c); err != nil {
		return err
	}
	if err := vouches(c); err != nil {
		return fmt.Errorf("the certificate of %.100q: %w", c.Subject, err)
	}
	return nil
}

func vouches(c *x509.Certificate) error {
	switch {
	case c.Version != 3:
		return fmt.Errorf("its version is %d: issue it as version 3", c.Version)
	case !c.BasicConstraintsValid || !c.IsCA:
		return errors.New("it is no CA certificate: issue it with CA:TRUE")
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return errors.New("its key may not sign certificates: issue it with keyCertSign")
	case c.SerialNumber.Sign() < 0 || c.SerialNumber.BitLen() >= maxSerial:
		return errors.New("its serial number is negative or too long: use a positive one of at most 20 bytes")
	case !c.NotBefore.Before(c.NotAfter):
		return errors.New("it ends before it begins: correct its dates")
	case len(c.UnhandledCriticalExtensions) > 0:
		return fmt.Errorf("its critical extension %s is unknown: issue it without", c.UnhandledCriticalExtensions[0])
	case len(c.Raw) > maxSize:
		return fmt.Errorf("it has %d bytes, more than %d: issue a smaller one", len(c.Raw), maxSize)
	}
	return keyVouches(c.PublicKey)
}

func keyVouches(key any) error {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits >= 2048 && bits <= 8192 && k.E >= 3 && k.E%2 == 1 {
			return nil
		}
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256(), elliptic.P384(), elliptic.P521():
			return nil
		}
	}
	return errors.New("its key is of no kind that Envoys verify by: use ECDSA on P-256, P-384 or P-521, " +
		"or RSA of 2,048 to 8,192 bits")
}

// Select returns, as PEM, the unexpired certificates in bundles that can verify a member, without
// duplicates. problems[i] lists why certificates of bundles[i] are omitted. share limits the bytes
// of subjects in the result; the newest certificates use it first.
func Select(now time.Time, share int, bundles ...[]byte) (out []byte, problems [][]error) {
	type candidate struct {
		*x509.Certificate
		bundle int
	}
	var all []candidate
	problems = make([][]error, len(bundles))
	for i, b := range bundles {
		list, bad := read(b)
		problems[i] = bad
		for _, c := range list {
			switch err := Vouches(c); {
			case err != nil:
				problems[i] = append(problems[i], err)
			case now.After(c.NotAfter):
			case !slices.ContainsFunc(all, func(o candidate) bool { return bytes.Equal(o.Raw, c.Raw) }):
				all = append(all, candidate{c, i})
			}
		}
	}
	byAge := slices.Clone(all)
	slices.SortStableFunc(byAge, func(a, b candidate) int { return b.NotBefore.Compare(a.NotBefore) })
	count, total := 0, 0
	taken, subjects := map[*x509.Certificate]bool{}, map[string]bool{}
	for _, c := range byAge {
		names := 0
		if !subjects[string(c.RawSubject)] {
			names = len(c.RawSubject) + 2
		}
		if count == maxCount || total+len(c.Raw) > maxTotal || names > share {
			problems[c.bundle] = append(problems[c.bundle],
				fmt.Errorf("there is no room for the certificate of %.100q: a member has "+
					"%d certificates of %d bytes, with subjects of some hundred bytes; remove old ones, or use "+
					"shorter subjects",
					c.Subject, maxCount, maxTotal))
			continue
		}
		count, total, share = count+1, total+len(c.Raw), share-names
		taken[c.Certificate], subjects[string(c.RawSubject)] = true, true
	}
	for _, c := range all {
		if taken[c.Certificate] {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
		}
	}
	return out, problems
}

const maxRead = 64

func read(bundle []byte) (out []*x509.Certificate, problems []error) {
	for range maxRead {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return out, problems
		}
		if block.Type != "CERTIFICATE" {
			problems = append(problems, fmt.Errorf("it has a %.40s: remove it", block.Type))
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			problems = append(problems, fmt.Errorf("a certificate is damaged: %w; issue it anew", err))
			continue
		}
		out = append(out, c)
	}
	if block, _ := pem.Decode(bundle); block == nil {
		return out, problems
	}
	return out, append(problems, fmt.Errorf("it has more than %d certificates: remove old ones", maxRead))
}
