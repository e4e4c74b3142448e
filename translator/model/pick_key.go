package model

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// keySeparator occurs in no Kubernetes name.
const keySeparator = "~"

// PickKey returns the key with which a Gateway's proxies call Penstock's picker: the Gateway's
// name, and a code derived from root and this name. Without root, a proxy cannot compute another
// Gateway's code.
func PickKey(root, gateway string) string {
	return gateway + keySeparator + hex.EncodeToString(pickCode(root, gateway))
}

// PickKeyOwner returns the Gateway whose key PickKey made with one of roots, or "" for other keys.
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
