package model

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// keySeparator stands between the Gateway and the code in a key; no name of Kubernetes has one.
const keySeparator = "~"

// PickKey is the key with which the proxies of a Gateway ("namespace/name") call our picker: the
// Gateway, and a code that needs the root key. So every process that has the root key accepts it,
// and no proxy can make the key of another Gateway.
func PickKey(root, gateway string) string {
	return gateway + keySeparator + hex.EncodeToString(pickCode(root, gateway))
}

// PickKeyOwner returns the Gateway whose key, made with one of the root keys, a text is; "" for any
// other text.
func PickKeyOwner(roots []string, key string) string {
	gateway, text, _ := strings.Cut(key, keySeparator)
	code, err := hex.DecodeString(text)
	if err != nil || gateway == "" {
		return ""
	}
	for _, root := range roots {
		if hmac.Equal(code, pickCode(root, gateway)) {
			return gateway
		}
	}
	return ""
}

func pickCode(root, gateway string) []byte {
	mac := hmac.New(sha256.New, []byte(root))
	mac.Write([]byte(gateway))
	return mac.Sum(nil)
}
