// Package announce carries a new pod's address from the CNI plugin to the program that enforces
// NetworkPolicies. The API learns an address only some time after the pod has begun to run; rules
// that waited for it would let the pod do anything at first, and others refuse it.
package announce

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"
)

const (
	// An abstract address: it exists in the node's network namespace only, and leaves no file.
	socket = "@orbiter-network-policies"
	// A pod that is refused is tried again by the kubelet.
	patience   = 20 * time.Second
	retryEvery = 50 * time.Millisecond
)

// Pod is a pod that is about to run, and its address.
type Pod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	IP        string `json:"ip"`
}

type answer struct {
	Error string `json:"error,omitempty"`
}

// Send tells of a pod and returns when the policies hold for it.
func Send(pod Pod) error {
	deadline := time.Now().Add(patience)
	connection, err := net.Dial("unix", socket)
	for err != nil && time.Now().Before(deadline) { // it is about to start, or to start again
		time.Sleep(retryEvery)
		connection, err = net.Dial("unix", socket)
	}
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(deadline); err != nil {
		return err
	}
	if err := json.NewEncoder(connection).Encode(pod); err != nil {
		return err
	}
	var said answer
	if err := json.NewDecoder(connection).Decode(&said); err != nil {
		return err
	}
	if said.Error != "" {
		return errors.New(said.Error)
	}
	return nil
}

// Serve gives every announced pod to handle, until ctx ends. One connection's failure is its own.
func Serve(ctx context.Context, handle func(context.Context, Pod) error) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for {
		connection, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go func() {
			defer connection.Close()
			one, done := context.WithTimeout(ctx, patience)
			defer done()
			var pod Pod
			var said answer
			err := connection.SetDeadline(time.Now().Add(patience))
			if err == nil {
				err = json.NewDecoder(connection).Decode(&pod)
			}
			if err == nil {
				err = handle(one, pod)
			}
			if err != nil {
				said.Error = err.Error()
			}
			_ = json.NewEncoder(connection).Encode(said) // whoever asked may be gone
		}()
	}
}
