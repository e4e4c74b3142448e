package certificates

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
)

// Read reads a certificate as Envoy does. If crypto/x509 cannot read it, only Raw is complete: a
// negative serial number becomes 1, names lack attributes of unusual types, and PublicKey is nil if
// the key's kind is unknown.
func Read(der []byte) (*x509.Certificate, error) {
	var whole asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &whole); err == nil {
		der = der[:len(der)-len(rest)]
	}
	f, err := split(der)
	if err != nil {
		return nil, fmt.Errorf("%w; issue it anew with another tool", err)
	}
	if c, err := x509.ParseCertificate(der); err == nil {
		return c, nil
	}
	return f.simplified(der)
}

// Blocks returns the certificates in a PEM text as DER. Like Envoy, it accepts OpenSSL's three
// block names.
func Blocks(text []byte) (out [][]byte) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return out
		}
		switch block.Type {
		case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE":
			out = append(out, block.Bytes)
		}
	}
}

const maxReplaced = 1000

func (f *fields) count() int {
	n := len(f.extensions)
	for _, name := range []asn1.RawValue{f.issuer, f.subject} {
		sets, _ := elements(name, asn1.TagSequence, 0, maxParts)
		for _, set := range sets {
			attributes, _ := elements(set, asn1.TagSet, 1, maxParts)
			n += len(attributes)
		}
	}
	return n
}

func readableExtensions(all []asn1.RawValue, reads func(change func(*fields)) bool) (out []asn1.RawValue) {
	seen := map[string]bool{}
	for _, e := range all {
		parts, err := elements(e, asn1.TagSequence, 2, 3)
		if err != nil || seen[string(parts[0].FullBytes)] {
			continue
		}
		if reads(func(o *fields) { o.extensions = []asn1.RawValue{e} }) {
			seen[string(parts[0].FullBytes)] = true
			out = append(out, e)
		}
	}
	return out
}

func (f *fields) simplified(der []byte) (*x509.Certificate, error) {
	known, err := standIn()
	if err != nil {
		return nil, err
	}
	reads := func(change func(*fields)) bool {
		one := *known
		change(&one)
		return one.reads()
	}
	if f.count() > maxReplaced {
		return nil,
			fmt.Errorf("it has more than %d extensions and attributes of names, and crypto/x509 does not read it",
				maxReplaced)
	}
	simple := *known
	if simple.serial = f.serial; !reads(func(o *fields) { o.serial = f.serial }) {
		simple.serial = known.serial
	}
	simple.issuer, simple.subject = readableName(f.issuer), readableName(f.subject)
	simple.validity = readableTimes(f.validity)
	key := reads(func(o *fields) { o.key = f.key })
	if key {
		simple.key = f.key
	}
	simple.extensions = readableExtensions(f.extensions, reads)
	c, err := x509.ParseCertificate(simple.der())
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	if c.Raw, c.Extensions = der, f.all(); !key {
		c.PublicKey = nil
	}
	alternatives(c)
	return c, nil
}

func (f *fields) all() (out []pkix.Extension) {
	for _, e := range f.extensions {
		parts, err := elements(e, asn1.TagSequence, 2, 3)
		var id asn1.ObjectIdentifier
		if err == nil {
			_, err = asn1.Unmarshal(parts[0].FullBytes, &id)
		}
		if err == nil {
			critical := len(parts) == 3 && parts[1].Bytes[0] != 0
			out = append(out, pkix.Extension{Id: id, Critical: critical, Value: parts[len(parts)-1].Bytes})
		}
	}
	return out
}

func (f *fields) reads() bool {
	_, err := x509.ParseCertificate(f.der())
	return err == nil
}

// standIn is a certificate without names. The code replaces one of its parts by a part of another
// certificate, to find out whether crypto/x509 can read this part.
var standIn = sync.OnceValues(func() (*fields, error) {
	der, err := hex.DecodeString(
		"3081a6308193a003020102020101300a06082a8648ce3d0403023000301e170d3730303130313030303030305a170d37" +
			"30303130313030303030315a30003059301306072a8648ce3d020106082a8648ce3d030107034200046b17d1f2e12c42" +
			"47f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315e" +
			"cecbb6406837bf51f5300a06082a8648ce3d04030203020000")
	if err != nil {
		return nil, err
	}
	return split(der)
})

func readableName(name asn1.RawValue) asn1.RawValue {
	sets, _ := elements(name, asn1.TagSequence, 0, maxParts)
	var kept []asn1.RawValue
	for _, set := range sets {
		attributes, _ := elements(set, asn1.TagSet, 1, maxParts)
		for _, a := range attributes {
			one := sequence(asn1.TagSet, []asn1.RawValue{a})
			if !readsName(one) {
				pair, _ := elements(a, asn1.TagSequence, 2, 2)
				text := asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: bytes.ToValidUTF8(pair[1].Bytes, []byte("?"))}
				text.FullBytes, _ = asn1.Marshal(text)
				one = sequence(asn1.TagSet, []asn1.RawValue{sequence(asn1.TagSequence, []asn1.RawValue{pair[0], text})})
			}
			if readsName(one) {
				kept = append(kept, one)
			}
		}
	}
	return sequence(asn1.TagSequence, kept)
}

func readsName(set asn1.RawValue) bool {
	known, err := standIn()
	if err != nil {
		return false
	}
	with := *known
	with.subject = sequence(asn1.TagSequence, []asn1.RawValue{set})
	return with.reads()
}

func readableTimes(validity asn1.RawValue) asn1.RawValue {
	times, _ := elements(validity, asn1.TagSequence, 2, 2)
	out := make([]asn1.RawValue, 0, len(times))
	for _, t := range times {
		at, _ := instant(t)
		text := at.UTC().Format("20060102150405Z")
		v := asn1.RawValue{Tag: asn1.TagGeneralizedTime, Bytes: []byte(text)}
		v.FullBytes, _ = asn1.Marshal(v)
		out = append(out, v)
	}
	return sequence(asn1.TagSequence, out)
}

var altName = asn1.ObjectIdentifier{2, 5, 29, 17}

// HasAlternativeName reports whether Envoy finds a DNS name, an address or a URI in subjectAltName.
// Envoy finds none if the extension is duplicate or has trailing data.
func HasAlternativeName(c *x509.Certificate) bool {
	return slices.ContainsFunc(alternativeNames(c),
		func(n asn1.RawValue) bool { return n.Tag == 2 || n.Tag == 6 || n.Tag == 7 })
}

func alternativeNames(c *x509.Certificate) (out []asn1.RawValue) {
	found := false
	for _, e := range c.Extensions {
		if !e.Id.Equal(altName) {
			continue
		}
		var list asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &list); found || err != nil || len(rest) > 0 {
			return nil
		}
		found = true
		names, err := elements(list, asn1.TagSequence, 0, maxParts)
		if err != nil {
			return nil
		}
		for _, n := range names {
			constructed := n.Tag == 0 || n.Tag >= 3 && n.Tag <= 5 // RFC 5280, 4.2.1.6
			if n.Class != asn1.ClassContextSpecific || n.Tag > 8 || n.IsCompound != constructed {
				return nil
			}
			out = append(out, n)
		}
	}
	return out
}

func alternatives(c *x509.Certificate) {
	if len(c.DNSNames)+len(c.IPAddresses)+len(c.URIs) > 0 {
		return
	}
	for _, n := range alternativeNames(c) {
		switch n.Tag {
		case 2:
			c.DNSNames = append(c.DNSNames, string(n.Bytes))
		case 6:
			c.URIs = append(c.URIs, &url.URL{Opaque: string(n.Bytes)})
		case 7:
			c.IPAddresses = append(c.IPAddresses, net.IP(bytes.Clone(n.Bytes)))
		}
	}
}
