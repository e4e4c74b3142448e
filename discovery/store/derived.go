package store

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Host is what discovery found for a host name that some object uses as an address. No user writes it. Its name is the
// host name, in lower case.
type Host struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Addresses []string // IP addresses, sorted; the last good answer while a newer one fails
	Error     string   // why the newest look-up failed; empty if it did not
}

// DeepCopyObject implements runtime.Object.
func (h *Host) DeepCopyObject() runtime.Object {
	c := *h
	h.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Addresses = slices.Clone(h.Addresses)
	return &c
}

// Learned holds addresses that a remote picker named and that were found to be allowed: endpoints of one exporting
// cluster of an import. No user writes it. Its namespace is the import's, its name LearnedName.
type Learned struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Endpoints []string // "ip:port", sorted
}

// LearnedName is the name of the Learned object of one exporting cluster of an import.
func LearnedName(importName, cluster string) string { return importName + "." + cluster }

// DeepCopyObject implements runtime.Object.
func (l *Learned) DeepCopyObject() runtime.Object {
	c := *l
	l.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Endpoints = slices.Clone(l.Endpoints)
	return &c
}

// Dialect is what a foreign picker has shown of how it answers (picker/probe). There is none for a picker of which there is nothing
// to say. No user writes it. Its name is that of the picker's Envoy cluster.
type Dialect struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Acknowledges bool // it only acknowledges bodies, where the endpoint picker protocol wants them sent back
	Health       bool // its health service says whether it is the one to ask
}

// DeepCopyObject implements runtime.Object.
func (d *Dialect) DeepCopyObject() runtime.Object {
	c := *d
	d.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// Authority is what proxies need to know to call Penstock's own services: whose certificates to trust, and the key that shows
// that they may. No user writes it. There is one, named OwnAuthority, where those services speak TLS.
type Authority struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	CA  []byte // certificates in PEM
	Key string
}

// OwnAuthority is the name of the one Authority.
const OwnAuthority = "own"

// DeepCopyObject implements runtime.Object.
func (a *Authority) DeepCopyObject() runtime.Object {
	c := *a
	a.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.CA = slices.Clone(a.CA)
	return &c
}
