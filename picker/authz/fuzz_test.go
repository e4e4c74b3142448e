package authz_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/authz"
)

// Every key of NewKey is well-formed, and no text of another length is. ParseHash accepts only
// texts that String returns.
func FuzzKey_FormIsThatOfNewKey(f *testing.F) {
	made, err := authz.NewKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{made, made + "=", made[:len(made)-1], "sk-ps-", authz.HashOf("k").String(), ""} {
		f.Add(seed, bytes.Repeat([]byte{9}, 32))
	}
	f.Fuzz(func(t *testing.T, text string, random []byte) {
		if key, err := authz.NewKey(bytes.NewReader(random)); (err == nil) != (len(random) >= 32) ||
			err == nil && (!authz.WellFormed(key) || authz.WellFormed(key+text) != (text == "")) {
			t.Errorf("of %d random bytes the key is %q, %v; want a well-formed one, of 32 bytes or more",
				len(random), key, err)
		}
		if h, err := authz.ParseHash(text); err == nil && h.String() != text {
			t.Errorf("%q is read as %s, want equal text", text, h)
		}
		if authz.WellFormed(text) && len(text) != len(made) {
			t.Errorf("%q has the form of a key, want one of %d bytes", text, len(made))
		}
	})
}

// For any request, a passing answer lists the policies, and no answer contains the credential.
func FuzzCheck_NoAnswerHasTheCredential(f *testing.F) {
	f.Add("/v1/messages?x", "authorization", "Bearer sk-secret", "content-type", "application/grpc")
	f.Add("/v1/models", "x-api-key", "sk-secret", "api-key", "sk-secret")
	f.Add("/", "authorization", "Bearer "+aliceToken, "x-penstock-model", "llama")
	f.Add("\xff", "authorization", "bearer", "AUTHORIZATION", "Bearer sk-secret,sk-secret")
	f.Fuzz(func(t *testing.T, path, name1, value1, name2, value2 string) {
		for _, lists := range []bool{false, true} {
			got, err := check(infra(), call{path: path, policies: "infra/all,infra/b", lists: lists, address: value1,
				headers: []string{name1, value1, name2, value2}})
			if err != nil {
				t.Fatal(err)
			}
			decided := got.GetDynamicMetadata().GetFields()[authz.MetadataDecided].GetListValue().GetValues()
			if (got.GetOkResponse() != nil) != (len(decided) == 2) {
				t.Errorf("%v: %d policies are decided, want 2 if and only if it passes", got, len(decided))
			}
			for _, secret := range []string{"sk-secret", aliceToken} {
				if strings.Contains(got.String(), secret) {
					t.Errorf("the answer has the credential: %v", got)
				}
			}
		}
	})
}

// A reference that the service did not write permits no model.
func FuzzPermits_ReferencesOfAnyForm(f *testing.F) {
	f.Add("models=WyJsbGFtYSJd", "llama")
	f.Add("infra/alice,models=", "llama")
	f.Add("models=bnVsbA,models=W10", "")
	tab := infra()
	f.Fuzz(func(t *testing.T, reference, model string) {
		if tab.Permits(reference, "n/pool", model) && !strings.Contains(reference, "infra/alice") &&
			!strings.Contains(reference, "models=") {
			t.Errorf("%q permits %q, want only references of the policy's keys or with models", reference, model)
		}
	})
}

// Tokens of any form are denied or rate limited, without a panic.
func FuzzToken_OnlyVerifiedOnesPass(f *testing.F) {
	f.Add("authorization", "Bearer "+aliceToken)
	f.Add("x-api-key", aliceToken+"x")
	f.Add("authorization", "Bearer e30.e30.e30")
	f.Fuzz(func(t *testing.T, name, value string) {
		got, err := check(federated(), call{policies: "infra/sso", tokens: verified(), address: "192.0.2.1",
			headers: []string{name, value}})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetOkResponse() != nil && !strings.Contains(value, aliceToken) {
			t.Errorf("%s: %q passes, want only the token", name, value)
		}
	})
}
