package file

import (
	"encoding/base64"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/certificates"
)

// secretKind converts stringData to data, as the API server does, so that values are in one place.
func secretKind() *kind {
	return &kind{table: store.Secrets, versions: []version{{"v1", stringDataToData}}, check: checkSecret,
		explain: hideValues}
}

// hideValues replaces findings that quote a Secret's values.
func hideValues(errs field.ErrorList) (own []mistake, rest field.ErrorList) {
	for _, e := range errs {
		if top, _, below := strings.Cut(e.Field, "."); below && (top == "data" || top == "stringData") {
			own = append(own,
				wrong(e.Field, "is not base64", "write the value's base64 in data, or its plain text in stringData"))
			continue
		}
		rest = append(rest, e)
	}
	return own, rest
}

func stringDataToData(d *draft) {
	plain, ok := d.obj["stringData"].(map[string]any)
	if !ok {
		return // absent, or of a type that the schema rejects
	}
	data, ok := d.obj["data"].(map[string]any)
	if !ok {
		if d.obj["data"] != nil {
			return
		}
		data = map[string]any{}
	}
	for _, k := range sortedKeys(plain) {
		s, ok := plain[k].(string)
		if !ok {
			return // the schema reports it
		}
		data[k] = base64.StdEncoding.EncodeToString([]byte(s))
		d.move(join("data", k), join("stringData", k))
	}
	d.obj["data"] = data
	delete(d.obj, "stringData")
}

func checkSecret(o store.Object) []mistake {
	s := o.(*corev1.Secret)
	if s.Type != corev1.SecretTypeTLS {
		return nil
	}
	var out []mistake
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		switch pem := string(s.Data[key]); {
		case pem == "":
			out = append(out,
				wrong("data", "has no "+key, "a Secret of type kubernetes.io/tls needs tls.crt and tls.key"))
		case !strings.Contains(pem, "-----BEGIN "):
			out = append(out, mistake{severity: report.Error, field: join("data", key), problem: "is not PEM",
				fix: "write the PEM file's base64 in data, or its text in stringData"})
		}
	}
	if len(out) > 0 {
		return out
	}
	// A pair that cannot serve, found here, leaves the last good one in force. Listeners check
	// again, for stores with other writers.
	if _, err := certificates.ReadPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		out = append(out, wrong("data", "tls.crt and tls.key are not a certificate with its key: "+err.Error(),
			"write a PEM certificate chain, leaf first, and the private key of the leaf"))
	}
	return out
}
