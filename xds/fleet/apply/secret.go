package apply

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

var (
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	reviews = schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "tokenreviews"}
)

// Secret implements authority.Secrets.
type Secret struct {
	Cluster         *Cluster
	Namespace, Name string
}

// Read implements authority.Secrets.
func (s Secret) Read(ctx context.Context) (map[string][]byte, string, error) {
	u, err := s.Cluster.client.Resource(secrets).Namespace(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	secret := &corev1.Secret{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, secret); err != nil {
		return nil, "", err
	}
	return secret.Data, secret.ResourceVersion, nil
}

// Write implements authority.Secrets.
func (s Secret) Write(ctx context.Context, data map[string][]byte, version string) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name, ResourceVersion: version,
			// The chart's ValidatingAdmissionPolicy requires this label.
			Labels: map[string]string{render.LabelManagedBy: render.ManagedBy},
		},
		Data: data, Type: corev1.SecretTypeOpaque,
	})
	if err != nil {
		return err
	}
	client, u := s.Cluster.client.Resource(secrets).Namespace(s.Namespace), &unstructured.Unstructured{Object: fields}
	if version == "" {
		_, err = client.Create(ctx, u, metav1.CreateOptions{FieldManager: FieldManager})
	} else {
		_, err = client.Update(ctx, u, metav1.UpdateOptions{FieldManager: FieldManager})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return authority.ErrChanged
	}
	return err
}

// ReviewToken implements identity.Reviewer.
func (c *Cluster) ReviewToken(ctx context.Context, token, audience string) (user string, err error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}},
	})
	if err != nil {
		return "", err
	}
	u, err := c.client.Resource(reviews).Create(ctx, &unstructured.Unstructured{Object: fields}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token review: %w", err)
	}
	review := &authenticationv1.TokenReview{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, review); err != nil {
		return "", err
	}
	// Without audiences in the status, the token may be for another audience.
	if !review.Status.Authenticated || len(review.Status.Audiences) == 0 {
		return "", nil
	}
	return review.Status.User.Username, nil
}
