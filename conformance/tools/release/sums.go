package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

const sumsFile = "SHA256SUMS"

// sums writes checksums in sha256sum's format. With a key, it signs the checksums and the images.
func (d *dist) sums() error {
	files, err := tree(d.out, "")
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, f := range files {
		if f.name == sumsFile {
			continue
		}
		fmt.Fprintf(&list, "%s  %s\n", sum(f.data), f.name)
	}
	if err := d.put(sumsFile, []byte(list.String())); err != nil || d.key == "" {
		return err
	}
	key, err := readKey(d.key)
	if err != nil {
		return err
	}
	signature, err := sign(key, []byte(list.String()))
	if err != nil {
		return err
	}
	return errors.Join(d.put(sumsFile+".sig", []byte(signature+"\n")), d.signImages(key))
}

// signingKey reads an ECDSA key in PEM, as openssl ecparam -genkey or openssl genpkey writes it.
func signingKey(text []byte) (*ecdsa.PrivateKey, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "EC PRIVATE KEY":
			return x509.ParseECPrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if found, ok := key.(*ecdsa.PrivateKey); ok {
				return found, nil
			}
			return nil, errors.Join(errors.New("the key is not an ECDSA key"), err)
		case "EC PARAMETERS":
		default:
			return nil, fmt.Errorf("a %s does not sign: write an ECDSA key that is not encrypted "+
				"(openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256)", block.Type)
		}
	}
	return nil, errors.New("no PEM key")
}
