package certificates

import (
	"bytes"
	"encoding/asn1"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type keys map[string][]byte

func readKeys(t testing.TB) keys {
	t.Helper()
	files, err := os.ReadDir("testdata/keys")
	if err != nil {
		t.Fatal(err)
	}
	out := keys{}
	for _, f := range files {
		if out[f.Name()], err = os.ReadFile(filepath.Join("testdata", "keys", f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func (k keys) kinds() (out []string) {
	for name := range k {
		if kind, ok := strings.CutSuffix(name, ".pub"); ok {
			out = append(out, kind)
		}
	}
	return out
}

func (k keys) public(kind string) []byte {
	block, _ := pem.Decode(k[kind+".pub"])
	return block.Bytes
}

func tlv(tag byte, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	out := []byte{tag}
	switch n := len(body); {
	case n < 0x80:
		out = append(out, byte(n))
	case n < 0x100:
		out = append(out, 0x81, byte(n))
	default:
		out = append(out, 0x82, byte(n>>8), byte(n))
	}
	return append(out, body...)
}

func seq(parts ...[]byte) []byte           { return tlv(0x30, parts...) }
func set(parts ...[]byte) []byte           { return tlv(0x31, parts...) }
func integer(content ...byte) []byte       { return tlv(0x02, content) }
func boolean(content ...byte) []byte       { return tlv(0x01, content) }
func octets(content ...[]byte) []byte      { return tlv(0x04, content...) }
func bits(unused byte, b ...byte) []byte   { return tlv(0x03, []byte{unused}, b) }
func text(tag byte, content string) []byte { return tlv(tag, []byte(content)) }

func oid(ids ...int) []byte {
	out, err := asn1.Marshal(asn1.ObjectIdentifier(ids))
	if err != nil {
		panic(err)
	}
	return out
}

var null = []byte{0x05, 0x00}

// These are ASN.1 tags of strings and times.
const (
	utf8String, numericString, printableString, t61String, ia5String = 0x0c, 0x12, 0x13, 0x14, 0x16
	utcTime, generalizedTime, visibleString                          = 0x17, 0x18, 0x1a
	universalString, bmpString                                       = 0x1c, 0x1e
)

type certificate struct {
	version          []byte // nil means version 1
	serial           []byte
	algorithm, outer []byte
	issuer, subject  []byte
	validity         []byte
	key              []byte
	unique           []byte // unique IDs of issuer and subject
	extensions       [][]byte
	noExtensions     bool   // omit the list of extensions even if extensions is empty
	more             []byte // follows the fields
	signature        []byte
	tail             []byte // follows the signature
	after            []byte // follows the certificate
}

var (
	commonName       = oid(2, 5, 4, 3)
	ecdsaWithSHA256  = seq(oid(1, 2, 840, 10045, 4, 3, 2))
	sha256WithRSA    = seq(oid(1, 2, 840, 113549, 1, 1, 11), null)
	basicConstraints = oid(2, 5, 29, 19)
	keyUsage         = oid(2, 5, 29, 15)
	altName          = oid(2, 5, 29, 17)
)

func name(attribute, value []byte) []byte { return seq(set(seq(attribute, value))) }

func extension(id, value []byte) []byte { return seq(id, octets(value)) }

func critical(id, value []byte) []byte { return seq(id, boolean(0xff), octets(value)) }

// plain is a self-issued certificate of a host, with a public key.
func plain(public []byte, authority bool) *certificate {
	c := &certificate{
		version:   tlv(0xa0, integer(2)),
		serial:    integer(0x12, 0x34),
		algorithm: ecdsaWithSHA256,
		issuer:    name(commonName, text(utf8String, "a.example.com")),
		validity:  seq(text(utcTime, "200101000000Z"), text(utcTime, "490101000000Z")),
		key:       public,
		signature: bits(0, bytes.Repeat([]byte{0x5a}, 64)...),
	}
	c.subject = c.issuer
	if authority {
		c.extensions = append(c.extensions, critical(basicConstraints, seq(boolean(0xff))),
			critical(keyUsage, bits(2, 0x04)))
	} else {
		c.extensions = append(c.extensions, extension(altName, seq(text(0x82, "a.example.com"))))
	}
	return c
}

func (c *certificate) der() []byte {
	var extensions []byte
	if !c.noExtensions {
		extensions = tlv(0xa3, seq(c.extensions...))
	}
	outer := c.outer
	if outer == nil {
		outer = c.algorithm
	}
	fields := seq(c.version, c.serial, c.algorithm, c.issuer, c.validity, c.subject, c.key, c.unique, extensions,
		c.more)
	return append(seq(fields, outer, c.signature, c.tail), c.after...)
}

func (c *certificate) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.der()})
}

type sample struct {
	name       string
	chain, key []byte // a listener's certificate chain and key
	bundle     []byte // a CA bundle, instead of chain and key
}
