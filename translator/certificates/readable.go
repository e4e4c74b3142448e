package certificates

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
)

// Readable returns why Envoy cannot read a certificate that crypto/x509 has read; nil if it can.
func Readable(c *x509.Certificate) error {
	if err := readable(c); err != nil {
		return fmt.Errorf("the certificate of %.100q cannot be read by Envoy: %w; issue it anew with another tool",
			c.Subject, err)
	}
	return nil
}

func readable(c *x509.Certificate) error {
	parts, err := elements(c.Raw, 3, 3)
	if err != nil {
		return fmt.Errorf("the certificate: %w", err)
	}
	fields, err := elements(parts[0].FullBytes, 6, 10)
	if err != nil {
		return fmt.Errorf("its fields: %w", err)
	}
	if fields[0].Class == asn1.ClassContextSpecific { // the version
		fields = fields[1:]
	}
	if len(fields) < 6 {
		return errors.New("it has too few fields")
	}
	if err := algorithm(fields[1]); err != nil {
		return fmt.Errorf("the signature algorithm: %w", err)
	}
	if err := name(fields[2]); err != nil {
		return fmt.Errorf("the issuer: %w", err)
	}
	if err := validity(fields[3]); err != nil {
		return fmt.Errorf("the validity: %w", err)
	}
	if err := name(fields[4]); err != nil {
		return fmt.Errorf("the subject: %w", err)
	}
	key, err := elements(fields[5].FullBytes, 2, 2)
	if err == nil {
		err = algorithm(key[0])
	}
	if err != nil {
		return fmt.Errorf("the public key: %w", err)
	}
	return optional(fields[6:], c.Version)
}

// errMore is that of a field with parts that its definition does not have. crypto/x509 ignores
// them.
var errMore = errors.New("it has more or fewer parts than RFC 5280 defines")

// elements are the parts of a constructed element.
func elements(der []byte, least, most int) (out []asn1.RawValue, err error) {
	var outer asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &outer); err != nil || len(rest) > 0 {
		return nil, errors.Join(errors.New("it is not DER"), err)
	}
	for rest := outer.Bytes; len(rest) > 0; {
		var part asn1.RawValue
		if rest, err = asn1.Unmarshal(rest, &part); err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	if len(out) < least || len(out) > most {
		return nil, errMore
	}
	return out, nil
}

// algorithm checks an AlgorithmIdentifier.
func algorithm(v asn1.RawValue) error {
	parts, err := elements(v.FullBytes, 1, 2)
	if err != nil || len(parts) == 1 {
		return err
	}
	switch p := parts[1]; {
	case p.Class != asn1.ClassUniversal, p.Tag == asn1.TagSequence && !p.IsCompound:
	case p.Tag == asn1.TagSequence, p.Tag == asn1.TagOID, bytes.Equal(p.FullBytes, asn1.NullBytes):
		return nil
	}
	return errors.New("its parameters are unknown")
}

// maxParts bounds the parts of a list; a certificate has at most as many bytes as its bundle.
const maxParts = 1 << 20

// name checks a distinguished name.
func name(v asn1.RawValue) error {
	sets, err := elements(v.FullBytes, 0, maxParts)
	if err != nil {
		return err
	}
	for _, set := range sets {
		attributes, err := elements(set.FullBytes, 1, maxParts)
		if err != nil {
			return err
		}
		for _, a := range attributes {
			pair, err := elements(a.FullBytes, 2, 2)
			if err != nil {
				return err
			}
			if v := pair[1]; v.Tag == asn1.TagUTF8String && bytes.ContainsFunc(v.Bytes, noncharacter) {
				return errors.New("its text has code points that Unicode reserves")
			}
		}
	}
	return nil
}

// noncharacter reports the code points that BoringSSL rejects and utf8.Valid accepts.
func noncharacter(r rune) bool {
	return r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef
}

// validity checks the two times. A UTCTime may have an offset.
func validity(v asn1.RawValue) error {
	times, err := elements(v.FullBytes, 2, 2)
	if err != nil {
		return err
	}
	for _, t := range times {
		switch n := len(t.Bytes); {
		case t.Tag == asn1.TagUTCTime && (n == len("YYMMDDhhmmssZ") || n == len("YYMMDDhhmmss+hhmm")):
		case t.Tag == asn1.TagGeneralizedTime && n == len("YYYYMMDDhhmmssZ"):
		default:
			return fmt.Errorf("%q lacks its seconds or its Z", t.Bytes)
		}
	}
	return nil
}

// optional checks what follows the public key: unique IDs (RFC 5280, 4.1.2.8) and extensions, each
// of some versions only.
func optional(fields []asn1.RawValue, version int) error {
	last := 0
	for _, f := range fields {
		if f.Class != asn1.ClassContextSpecific || f.Tag <= last || f.Tag > 3 {
			return errMore
		}
		switch last = f.Tag; {
		case f.Tag < 3 && version == 1, f.Tag == 3 && version < 3:
			return fmt.Errorf("version %d has no such fields", version)
		case f.Tag < 3:
			as := slices.Clone(f.FullBytes)
			as[0] = asn1.TagBitString
			if _, err := asn1.Unmarshal(as, new(asn1.BitString)); err != nil {
				return fmt.Errorf("a unique ID: %w", err)
			}
		default:
			if err := extensions(f); err != nil {
				return fmt.Errorf("the extensions: %w", err)
			}
		}
	}
	return nil
}

func extensions(f asn1.RawValue) error {
	list, err := elements(f.FullBytes, 1, 1)
	if err != nil {
		return err
	}
	all, err := elements(list[0].FullBytes, 0, maxParts)
	if err != nil {
		return err
	}
	for _, e := range all {
		parts, err := elements(e.FullBytes, 2, 3)
		if err != nil {
			return err
		}
		if len(parts) == 3 && parts[1].Tag != asn1.TagBoolean {
			return errMore
		}
	}
	return nil
}
