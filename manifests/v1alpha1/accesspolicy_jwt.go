package v1alpha1

// AccessJWT lets in requests with a JSON Web Token (RFC 7519) of an issuer. The client sends the
// token as it would send an API key. A token counts until its exp, if an asymmetric key of the
// issuer has signed it, and its iss and aud fit. A token without exp never counts. No token counts
// while jwks, caCertificateRefs, claims or claims.models is null.
//
// +kubebuilder:validation:XValidation:rule="has(self.jwks) || self.issuer.startsWith('https://') || self.issuer.startsWith('http://')",message="without jwks the issuer is asked for its keys, and must be a URL: write its URL, or jwks"
type AccessJWT struct {
	// Issuer is the iss of tokens, letter for letter, such as
	// https://sso.example.com/realms/models. Without jwks, OpenID Connect discovery at this URL
	// finds the issuer's keys.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer"`
	// Audiences lists names of this service at the issuer. The aud of a token must have one of
	// them.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=set
	Audiences []string `json:"audiences"`
	// JWKS is the issuer's set of keys. By default discovery finds it.
	//
	// +optional
	// +nullable
	JWKS *AccessJWKS `json:"jwks,omitempty"`
	// CACertificateRefs name ConfigMaps of the policy's namespace whose ca.crt has the CAs of the
	// issuer's servers, in PEM. By default the system's CAs count.
	//
	// +optional
	// +nullable
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	CACertificateRefs []AccessObject `json:"caCertificateRefs,omitempty"`
	// TokenSecretRef names a Secret of the policy's namespace whose token is sent to the host of
	// jwks.uri, or of the issuer, as Authorization: Bearer. By default no token is sent.
	//
	// +optional
	TokenSecretRef *AccessObject `json:"tokenSecretRef,omitempty"`
	// Claims name the claims of a token that describe the caller.
	//
	// +optional
	// +nullable
	Claims AccessClaims `json:"claims,omitzero"`
}

// AccessJWKS is a JSON Web Key Set (RFC 7517).
//
// +kubebuilder:validation:XValidation:rule="has(self.uri) != has(self.inline)",message="write uri or inline, one of them"
type AccessJWKS struct {
	// URI is where Penstock fetches the set, over HTTPS. Its host, and the issuer's for discovery,
	// must be in --fetch-hosts. In a folder all hosts are allowed by default, and a loopback
	// address may be http.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@\s]+([/?][^#\s]*)?$`
	URI string `json:"uri,omitempty"`
	// Inline is the set itself, as JSON.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Inline string `json:"inline,omitempty"`
}

// AccessObject names an object of the policy's namespace.
type AccessObject struct {
	// Name of the object.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AccessClaims names claims. Each name is the name of a claim, or else a path of names with dots
// between them, such as realm_access.roles.
type AccessClaims struct {
	// Owner is the claim with the owner. Requests count for the caller NAMESPACE/OWNER. All
	// characters of the owner but letters, digits and @._:- are percent-encoded. A token does not
	// count if it lacks the claim, or if the encoded owner has more than 128 characters.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:default=sub
	Owner string `json:"owner,omitempty"`
	// Groups is the claim with the caller's groups: a list, or a text with spaces between groups.
	// The groups are in the metadata of Envoy's namespace envoy.filters.http.ext_authz. At most 32
	// groups of at most 128 bytes count.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Groups string `json:"groups,omitempty"`
	// Models is the claim with the models that the caller may use: a list of at most 64 names that
	// clients send, or prefixes that end in *. If a token lacks the claim, its caller may use no
	// model. By default all models may be used. The route needs a policy with byModel.
	//
	// +optional
	// +nullable
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Models string `json:"models,omitempty"`
	// Objective is the claim with the name of the InferenceObjective that gives requests their
	// priority. By default, and for a token without the claim, requests have no objective.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Objective string `json:"objective,omitempty"`
}
