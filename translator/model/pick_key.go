package model

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// No Kubernetes name contains keySeparator.
const keySeparator = "~"

// PickKey returns the key with which a Gateway's proxies call our picker: the Gateway's name and a
// code derived from it with the root key. No proxy can make another Gateway's code.
func PickKey(root, gateway string) string {
	return gateway + keySeparator + hex.EncodeToString(pickCode(root, gateway))
}

// PickKeyOwner returns the Gateway of a key that was made with one of the root keys, or "".
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
