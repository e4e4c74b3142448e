package controller

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/engine/deployment"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// inputs are the objects of a user's files that deployments depend on, by primary key.
type inputs struct {
	deployments map[string]*v1alpha1.ModelDeployment
	engines     map[string]*v1alpha1.Engine
	gateways    map[string]*gatewayv1.Gateway
	routes      map[string]*gatewayv1.HTTPRoute // routes that match a model
	users       map[object]bool                 // objects of the kinds that are derived
	cluster     clusterNames
}

type object struct{ kind, id string }

func newInputs() inputs {
	return inputs{deployments: map[string]*v1alpha1.ModelDeployment{}, engines: map[string]*v1alpha1.Engine{},
		gateways: map[string]*gatewayv1.Gateway{}, routes: map[string]*gatewayv1.HTTPRoute{},
		users: map[object]bool{}, cluster: clusterNames{}}
}

func (in *inputs) follow(op store.Op) (concerned bool) {
	switch kind := op.Kind(); kind {
	case store.ModelDeployments.Kind():
		keep(in.deployments, op)
		return true
	case store.Engines.Kind():
		keep(in.engines, op)
		return true
	case store.Gateways.Kind():
		keep(in.gateways, op)
		return true
	case store.HTTPRoutes.Kind():
		before := in.routes[op.ID()]
		keep(in.routes, op)
		if route := in.routes[op.ID()]; route != nil && len(deployment.Models(route)) == 0 {
			delete(in.routes, op.ID())
		}
		concerned = before != nil || in.routes[op.ID()] != nil
	}
	for _, table := range deployment.Derived() {
		if table.Kind() != op.Kind() {
			continue
		}
		if key := (object{op.Kind(), op.ID()}); op.Object() == nil {
			delete(in.users, key)
		} else {
			in.users[key] = true
		}
		return concerned || in.deployments[op.ID()] != nil
	}
	return in.cluster.follow(op) || concerned
}

// keep puts the object of op into objects, or deletes it.
func keep[T store.Object](objects map[string]T, op store.Op) {
	if obj, ok := op.Object().(T); ok {
		objects[op.ID()] = obj
	} else {
		delete(objects, op.ID())
	}
}
