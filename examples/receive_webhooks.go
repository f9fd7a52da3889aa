// Take callbacks: WEBHOOK_SECRET=whsec_… go run receive_webhooks.go PORT SEEN.txt (nothing to install)
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const tolerance, largest = 300, 8 << 20

// isOurs says whether we were meant, lately: one of the signatures is that of these very bytes.
func isOurs(secret []byte, header http.Header, body []byte) bool {
	stamp := header.Get("webhook-timestamp")
	at, err := strconv.ParseInt(stamp, 10, 64)
	if age := time.Now().Unix() - at; err != nil || age > tolerance || age < -tolerance {
		return false
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(header.Get("webhook-id") + "." + stamp + "."))
	mac.Write(body)
	right := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for _, each := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(each), right) {
			return true
		}
	}
	return false
}

func main() {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil {
		log.Fatal("WEBHOOK_SECRET: ", err)
	}
	known, _ := os.ReadFile(os.Args[2])
	seen := map[string]bool{}
	for _, id := range strings.Fields(string(known)) {
		seen[id] = true
	}
	file, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	var one sync.Mutex
	http.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largest))
		if err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		if !isOurs(secret, r.Header, body) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		one.Lock()
		defer one.Unlock()
		if id := r.Header.Get("webhook-id"); !seen[id] {
			var event struct {
				Type string
				Data struct {
					RequestID string `json:"request_id"`
					Answer    string
				}
			}
			if err := json.Unmarshal(body, &event); err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			// In a database the id and your own work belong into one transaction: both are done, or none.
			fmt.Println(event.Type, event.Data.RequestID, event.Data.Answer)
			fmt.Fprintln(file, id)
			seen[id] = true
		}
		w.WriteHeader(http.StatusNoContent) // a repeat is answered as the first time, and done once
	})
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening on", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, nil))
}
