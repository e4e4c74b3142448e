package certificates_test

import (
	"crypto/elliptic"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/translator/certificates"
)

// If crypto/x509 cannot read a certificate, Read parses its parts one by one. Their number must
// have a limit, because otherwise one Secret could occupy the control plane for minutes.
func TestRead_PartsThatAreReadOneByOneAreBounded(t *testing.T) {
	with := func(n int) []byte {
		return edit(t, authority(t, newKey(t, elliptic.P256()), nil), func(f [][]byte) [][]byte {
			f[serial] = []byte{2, 1, 0xff} // crypto/x509 rejects this serial number
			list := parts(t, parts(t, f[extensions])[0])
			for i := range n {
				id := []byte{6, 4, 0x2a, 0x80 | byte(1+i>>14&0x3f), 0x80 | byte(i>>7&0x7f), byte(i & 0x7f)}
				list = append(list, seq(id, []byte{4, 0}))
			}
			f[extensions] = tlv(0xa3, seq(list...))
			return f
		})
	}
	c, err := certificates.Read(with(900))
	if err != nil || len(c.Extensions) < 900 || !c.IsCA {
		t.Errorf("900 extensions: got %v, want a CA with all of them", err)
	}
	if _, err := certificates.Read(with(70_000)); err == nil ||
		!strings.Contains(err.Error(), "more than 1000 extensions") {
		t.Errorf("70,000 extensions: got %v, want an error that names their bound", err)
	}
}
