package authz

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// KeyPrefix begins every key of NewKey, so that secret scanners find keys in code and logs.
const KeyPrefix = "sk-ps-"

const (
	secretBytes   = 32
	checksumBytes = 4 // CRC-32 of the prefix and the random bytes
)

// Hash is the SHA-256 hash of a whole key.
type Hash [sha256.Size]byte

// HashOf returns the hash of a key.
func HashOf(key string) Hash { return sha256.Sum256([]byte(key)) }

// ParseHash parses an APIKey's hash, in lower-case hexadecimal digits.
func ParseHash(text string) (h Hash, err error) {
	if len(text) != hex.EncodedLen(len(h)) || strings.ToLower(text) != text {
		return h, fmt.Errorf("a hash has %d lower-case hexadecimal digits", hex.EncodedLen(len(h)))
	}
	_, err = hex.Decode(h[:], []byte(text))
	return h, err
}

// String returns the hash in lower-case hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// NewKey returns a new API key with 256 bits from random.
func NewKey(random io.Reader) (string, error) {
	raw := make([]byte, secretBytes, secretBytes+checksumBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("random bits of a key: %w", err)
	}
	sum := checksum(raw)
	return KeyPrefix + base64.RawURLEncoding.EncodeToString(append(raw, sum[:]...)), nil
}

// WellFormed reports whether a key has the form and the checksum of NewKey's keys. Other keys,
// which an operator has imported, are also permitted.
func WellFormed(key string) bool {
	text, ok := strings.CutPrefix(key, KeyPrefix)
	// Compare the length exactly, because the decoder skips newlines.
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(secretBytes+checksumBytes) {
		return false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != secretBytes+checksumBytes {
		return false
	}
	return checksum(raw[:secretBytes]) == [checksumBytes]byte(raw[secretBytes:])
}

func checksum(secret []byte) (sum [checksumBytes]byte) {
	n := crc32.Update(crc32.ChecksumIEEE([]byte(KeyPrefix)), crc32.IEEETable, secret)
	return [checksumBytes]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}
