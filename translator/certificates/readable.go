package certificates

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Readable returns why Envoy cannot read a certificate that crypto/x509 can read, or nil.
func Readable(c *x509.Certificate) error {
	if _, err := split(c.Raw); err != nil {
		return fmt.Errorf("the certificate of %.100q cannot be read by Envoy: %w; issue it anew with another tool",
			c.Subject, err)
	}
	return nil
}

type fields struct {
	version          int
	serial           asn1.RawValue
	algorithm        asn1.RawValue
	issuer, subject  asn1.RawValue
	validity         asn1.RawValue
	key              asn1.RawValue
	extensions       []asn1.RawValue
	outer, signature asn1.RawValue
}

func split(der []byte) (*fields, error) {
	var whole asn1.RawValue
	if rest, err := asn1.Unmarshal(der, &whole); err != nil || len(rest) > 0 {
		return nil, errors.Join(errors.New("it is not DER"), err)
	}
	parts, err := elements(whole, asn1.TagSequence, 3, 3)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	list, err := elements(parts[0], asn1.TagSequence, 6, 10)
	if err != nil {
		return nil, fmt.Errorf("its fields: %w", err)
	}
	f := &fields{version: 1, outer: parts[1], signature: parts[2]}
	if list[0].Class == asn1.ClassContextSpecific && list[0].Tag == 0 {
		if f.version, err = version(list[0]); err != nil {
			return nil, err
		}
		list = list[1:]
	}
	if len(list) < 6 {
		return nil, errors.New("it has too few fields")
	}
	f.serial, f.algorithm, f.issuer, f.validity, f.subject, f.key = list[0], list[1], list[2], list[3], list[4], list[5]
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, f.optional(list[6:])
}

func (f *fields) check() error {
	for _, part := range []struct {
		name  string
		value asn1.RawValue
		check func(asn1.RawValue) error
	}{
		{"the serial number", f.serial, only(asn1.TagInteger)}, {"the signature algorithm", f.algorithm, algorithm},
		{"the issuer", f.issuer, name}, {"the validity", f.validity, validity}, {"the subject", f.subject, name},
		{"the public key", f.key, publicKey}, {"the signature's algorithm", f.outer, algorithm},
		{"the signature", f.signature, only(asn1.TagBitString)},
	} {
		if err := part.check(part.value); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func (f *fields) der() []byte {
	marked := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: []byte{2, 1, 2}}
	marked.FullBytes, _ = asn1.Marshal(marked)
	list := []asn1.RawValue{marked, f.serial, f.algorithm, f.issuer, f.validity, f.subject, f.key}
	if len(f.extensions) > 0 {
		extensions := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 3, IsCompound: true,
			Bytes: sequence(asn1.TagSequence, f.extensions).FullBytes}
		extensions.FullBytes, _ = asn1.Marshal(extensions)
		list = append(list, extensions)
	}
	return sequence(asn1.TagSequence, []asn1.RawValue{sequence(asn1.TagSequence, list), f.outer, f.signature}).FullBytes
}

func sequence(tag int, parts []asn1.RawValue) asn1.RawValue {
	v := asn1.RawValue{Tag: tag, IsCompound: true}
	for _, p := range parts {
		v.Bytes = append(v.Bytes, p.FullBytes...)
	}
	v.FullBytes, _ = asn1.Marshal(v)
	return v
}

var errMore = errors.New("it has more or fewer parts than RFC 5280 defines")

func elements(v asn1.RawValue, tag, least, most int) (out []asn1.RawValue, err error) {
	if v.Class != asn1.ClassUniversal || v.Tag != tag || !v.IsCompound {
		return nil, errMore
	}
	for rest := v.Bytes; len(rest) > 0; {
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

func version(v asn1.RawValue) (int, error) {
	var n int
	if rest, err := asn1.Unmarshal(v.Bytes, &n); err != nil || len(rest) > 0 || !v.IsCompound || n < 0 || n > 2 {
		return 0, errors.New("its version is not 1, 2 or 3")
	}
	return n + 1, nil
}

func only(tag int) func(asn1.RawValue) error {
	return func(v asn1.RawValue) error {
		if v.Class != asn1.ClassUniversal || v.Tag != tag {
			return errors.New("it is of another type")
		}
		return value(v)
	}
}

func algorithm(v asn1.RawValue) error {
	parts, err := elements(v, asn1.TagSequence, 1, 2)
	if err == nil {
		err = only(asn1.TagOID)(parts[0])
	}
	if err != nil || len(parts) == 1 {
		return err
	}
	if p := parts[1]; p.Class == asn1.ClassContextSpecific || value(p) != nil {
		return errors.New("its parameters are unknown")
	}
	return nil
}

func publicKey(v asn1.RawValue) error {
	parts, err := elements(v, asn1.TagSequence, 2, 2)
	if err == nil {
		err = algorithm(parts[0])
	}
	if err != nil {
		return err
	}
	return only(asn1.TagBitString)(parts[1])
}

const maxParts = 1 << 20

func name(v asn1.RawValue) error {
	sets, err := elements(v, asn1.TagSequence, 0, maxParts)
	if err != nil {
		return err
	}
	for _, set := range sets {
		attributes, err := elements(set, asn1.TagSet, 1, maxParts)
		if err != nil {
			return err
		}
		for _, a := range attributes {
			pair, err := elements(a, asn1.TagSequence, 2, 2)
			if err == nil {
				err = only(asn1.TagOID)(pair[0])
			}
			if err == nil {
				err = value(pair[1])
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

const tagUniversalString = 28

func value(v asn1.RawValue) error {
	if v.Class != asn1.ClassUniversal {
		return nil
	}
	if v.IsCompound != (v.Tag == asn1.TagSequence || v.Tag == asn1.TagSet) {
		return errors.New("it is a string of strings, or a list without its mark")
	}
	fail := errors.New("it is not encoded as its type is")
	switch v.Tag {
	case asn1.TagInteger, asn1.TagEnum:
		if n := len(v.Bytes); n == 0 ||
			n > 1 && (v.Bytes[0] == 0 && v.Bytes[1] < 0x80 || v.Bytes[0] == 0xff && v.Bytes[1] >= 0x80) {
			return fail
		}
	case asn1.TagBoolean:
		if len(v.Bytes) != 1 {
			return fail
		}
	case asn1.TagNull:
		if len(v.Bytes) > 0 {
			return fail
		}
	case asn1.TagBitString:
		if _, err := asn1.Unmarshal(v.FullBytes, new(asn1.BitString)); err != nil {
			return err
		}
	case asn1.TagOID:
		return identifier(v.Bytes)
	case asn1.TagUTF8String:
		if !utf8.Valid(v.Bytes) {
			return errors.New("its text is not UTF-8")
		}
		for _, r := range string(v.Bytes) {
			if noncharacter(r) {
				return errReserved
			}
		}
	case asn1.TagBMPString:
		return wide(v.Bytes, 2)
	case tagUniversalString:
		return wide(v.Bytes, 4)
	}
	return nil
}

func identifier(b []byte) error {
	begins := true
	for _, c := range b {
		if begins && c == 0x80 {
			return errors.New("an object identifier has a byte too many")
		}
		begins = c < 0x80
	}
	if len(b) == 0 || !begins {
		return errors.New("an object identifier is not complete")
	}
	return nil
}

var errReserved = errors.New("its text has code points that Unicode reserves")

func wide(b []byte, size int) error {
	if len(b)%size != 0 {
		return errors.New("its text ends within a character")
	}
	for ; len(b) > 0; b = b[size:] {
		r := rune(binary.BigEndian.Uint16(b))
		if size == 4 {
			r = rune(binary.BigEndian.Uint32(b))
		}
		if !utf8.ValidRune(r) || noncharacter(r) {
			return errReserved
		}
	}
	return nil
}

// noncharacter reports code points that BoringSSL rejects although utf8.Valid accepts them.
func noncharacter(r rune) bool {
	return r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef
}

func validity(v asn1.RawValue) error {
	times, err := elements(v, asn1.TagSequence, 2, 2)
	if err != nil {
		return err
	}
	for _, t := range times {
		if _, err := instant(t); err != nil {
			return err
		}
	}
	return nil
}

const maxOffset = 12

func instant(t asn1.RawValue) (time.Time, error) {
	fail := fmt.Errorf("%q is no time with its seconds and its Z", t.Bytes)
	text := string(t.Bytes)
	switch {
	case t.Class != asn1.ClassUniversal || t.IsCompound:
		return time.Time{}, fail
	case t.Tag == asn1.TagGeneralizedTime && len(text) == len("YYYYMMDDhhmmssZ"):
		at, err := time.Parse("20060102150405Z", text)
		return at, err
	case t.Tag == asn1.TagUTCTime && len(text) == len("YYMMDDhhmmssZ"):
		return inCentury(time.Parse("060102150405Z", text))
	case t.Tag == asn1.TagUTCTime && len(text) == len("YYMMDDhhmmss+hhmm"):
		if hours := text[13:15]; hours > fmt.Sprint(maxOffset) {
			return time.Time{}, fail
		}
		return inCentury(time.Parse("060102150405-0700", text))
	}
	return time.Time{}, fail
}

// inCentury corrects a year from time.Parse: a UTCTime is in the years 1950 to 2049 (RFC 5280,
// 4.1.2.5.1).
func inCentury(at time.Time, err error) (time.Time, error) {
	if at.Year() >= 2050 {
		at = at.AddDate(-100, 0, 0)
	}
	return at, err
}

// optional checks a certificate's unique IDs (RFC 5280, 4.1.2.8) and extensions, which only some
// versions allow.
func (f *fields) optional(list []asn1.RawValue) error {
	last := 0
	for _, v := range list {
		if v.Class != asn1.ClassContextSpecific || v.Tag <= last || v.Tag > 3 {
			return errMore
		}
		switch last = v.Tag; {
		case v.Tag < 3 && f.version == 1, v.Tag == 3 && f.version < 3:
			return fmt.Errorf("version %d has no such fields", f.version)
		case v.Tag < 3:
			as := slices.Clone(v.FullBytes)
			as[0] = asn1.TagBitString
			if _, err := asn1.Unmarshal(as, new(asn1.BitString)); err != nil || v.IsCompound {
				return fmt.Errorf("a unique ID: %w", errors.Join(errMore, err))
			}
		default:
			if err := f.read(v); err != nil {
				return fmt.Errorf("the extensions: %w", err)
			}
		}
	}
	return nil
}

func (f *fields) read(v asn1.RawValue) (err error) {
	var list asn1.RawValue
	if rest, err := asn1.Unmarshal(v.Bytes, &list); err != nil || len(rest) > 0 || !v.IsCompound {
		return errors.Join(errMore, err)
	}
	if f.extensions, err = elements(list, asn1.TagSequence, 0, maxParts); err != nil {
		return err
	}
	for _, e := range f.extensions {
		parts, err := elements(e, asn1.TagSequence, 2, 3)
		if err == nil {
			err = only(asn1.TagOID)(parts[0])
		}
		if err == nil && len(parts) == 3 {
			err = only(asn1.TagBoolean)(parts[1])
		}
		if err == nil {
			err = only(asn1.TagOctetString)(parts[len(parts)-1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}
