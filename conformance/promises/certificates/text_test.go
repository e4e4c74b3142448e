package certificates

import (
	"bytes"
	"encoding/pem"
	"strings"
)

type writing struct {
	name  string
	apply func(text []byte) []byte
}

func wrapped(columns int) func([]byte) []byte {
	return func(b []byte) []byte {
		first, rest, _ := bytes.Cut(b, []byte("-----\n"))
		content, last, _ := bytes.Cut(rest, []byte("\n-----END"))
		content = bytes.ReplaceAll(content, []byte("\n"), nil)
		var out []byte
		for len(content) > 0 {
			n := min(columns, len(content))
			out, content = append(append(out, content[:n]...), '\n'), content[n:]
		}
		return bytes.Join([][]byte{first, []byte("-----\n"), out, []byte("-----END"), last}, nil)
	}
}

// writings returns deviations of PEM text. other is another PEM block.
func writings(other []byte) []writing {
	swap := func(old, by string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(by)) }
	}
	lines := func(change func([]string) []string) func([]byte) []byte {
		return func(b []byte) []byte { return []byte(strings.Join(change(strings.Split(string(b), "\n")), "\n")) }
	}
	return []writing{
		{"text around", func(b []byte) []byte { return []byte("subject=a\n" + string(b) + "\nissuer=b\n") }},
		{"CRLF", swap("\n", "\r\n")},
		{"CR", swap("\n", "\r")},
		{"no newline at the end", func(b []byte) []byte { return bytes.TrimSpace(b) }},
		{"spaces at the ends of lines", swap("\n", "  \n")},
		{"tabs at the ends of lines", swap("\n", "\t\n")},
		{"spaces before lines", lines(func(l []string) []string {
			for i := range l {
				l[i] = "  " + l[i]
			}
			return l
		})},
		{"a header", swap("CERTIFICATE-----\nM", "CERTIFICATE-----\nComment: a\n\nM")},
		{"an empty line before the body", swap("-----\nM", "-----\n\nM")},
		{
			"an empty line in the body",
			lines(func(l []string) []string { return append(append(l[:2:2], ""), l[2:]...) }),
		},
		{"an empty line behind the body", swap("\n-----END", "\n\n-----END")},
		{"one line", wrapped(100_000)},
		{"76 columns", wrapped(76)},
		{"1 column", wrapped(1)},
		{"63 columns", wrapped(63)},
		{"a byte order mark", func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) }},
		{"UTF-16", func(b []byte) []byte { return swap("", "\x00")(b) }},
		{"twice", func(b []byte) []byte { return append(bytes.Clone(b), b...) }},
		{"another block before", func(b []byte) []byte { return append(bytes.Clone(other), b...) }},
		{"another block behind", func(b []byte) []byte { return append(bytes.Clone(b), other...) }},
		{"a broken block behind", func(b []byte) []byte {
			return append(bytes.Clone(b), "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"...)
		}},
		{"a block of no byte behind", func(b []byte) []byte {
			return append(bytes.Clone(b), "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"...)
		}},
		{"an unfinished block behind", func(b []byte) []byte {
			return append(bytes.Clone(b), "-----BEGIN CERTIFICATE-----\nMAAA\n"...)
		}},
		{"an unknown block behind", func(b []byte) []byte {
			return append(bytes.Clone(b), "-----BEGIN THING-----\nMAAA\n-----END THING-----\n"...)
		}},
		{"parameters of Diffie and Hellman behind", func(b []byte) []byte {
			return append(bytes.Clone(b),
				"-----BEGIN DH PARAMETERS-----\nMAYCAQUCAQI=\n-----END DH PARAMETERS-----\n"...)
		}},
		{"a NUL at the end", func(b []byte) []byte { return append(bytes.Clone(b), 0) }},
		{"DER", func(b []byte) []byte {
			if block, _ := pem.Decode(b); block != nil {
				return block.Bytes
			}
			return nil
		}},
		{"another end", swap("-----END CERT", "-----END X509 CERT")},
		{"no end", lines(func(l []string) []string { return l[:len(l)-2] })},
		{"lower case", func(b []byte) []byte { return bytes.Replace(b, []byte("BEGIN"), []byte("begin"), 1) }},
		{"four dashes", swap("-----BEGIN", "----BEGIN")},
		{"six dashes", swap("-----BEGIN", "------BEGIN")},
		{"a comment behind BEGIN", swap("BEGIN CERTIFICATE-----", "BEGIN CERTIFICATE----- # mine")},
		{"a character that is not base64", lines(func(l []string) []string { l[1] = "*" + l[1]; return l })},
		{"a character too few", lines(func(l []string) []string { l[1] = l[1][1:]; return l })},
		{"X509 CERTIFICATE", swap("CERTIFICATE-----", "X509 CERTIFICATE-----")},
		{"TRUSTED CERTIFICATE", swap("CERTIFICATE-----", "TRUSTED CERTIFICATE-----")},
		{"nothing", func([]byte) []byte { return nil }},
		{"a space", func([]byte) []byte { return []byte(" ") }},
	}
}

// keyFiles returns a key's files in encodings other than PKCS #8, with the kind of the
// certificate's key.
func (k keys) keyFiles() (out []struct {
	name, kind string
	text       []byte
}) {
	add := func(name, kind string, text []byte) {
		out = append(out, struct {
			name, kind string
			text       []byte
		}{name, kind, text})
	}
	for file, text := range k {
		kind, form, _ := strings.Cut(file, ".")
		if form != "key" && form != "pub" {
			add("key: "+file, kind, text)
		}
	}
	add("key of another certificate", "ec-P-256", k["other.key"])
	add("key of another kind", "ec-P-256", k["rsa-2048.key"])
	add("public key", "ec-P-256", k["ec-P-256.pub"])
	add("two keys", "ec-P-256", append(bytes.Clone(k["ec-P-256.key"]), k["other.key"]...))
	add("two keys, the other one first", "ec-P-256", append(bytes.Clone(k["other.key"]), k["ec-P-256.key"]...))
	add("certificate before the key", "ec-P-256",
		append(plain(k.public("ec-P-256"), false).pem(), k["ec-P-256.key"]...))
	rename := func(kind, by string) []byte {
		return bytes.ReplaceAll(k[kind+".key"], []byte("PRIVATE KEY"), []byte(by+" PRIVATE KEY"))
	}
	add("RSA key that is PKCS #8", "rsa-2048", rename("rsa-2048", "RSA"))
	add("EC key that is PKCS #8", "ec-P-256", rename("ec-P-256", "EC"))
	add("PKCS #8 key that is SEC 1", "ec-P-256",
		bytes.ReplaceAll(k["ec-P-256.sec1"], []byte("EC PRIVATE"), []byte("PRIVATE")))
	add("PKCS #8 key that is PKCS #1", "rsa-2048",
		bytes.ReplaceAll(k["rsa-2048.traditional"], []byte("RSA PRIVATE"), []byte("PRIVATE")))
	add("ANY key", "ec-P-256", rename("ec-P-256", "ANY"))
	return out
}
